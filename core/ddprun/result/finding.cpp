// Sentences and the tests of what they claim.
#include "ddprun/result/finding.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

namespace {

std::vector<Comparison*> tests_of(std::vector<Finding>& findings) {
  std::vector<Comparison*> tests;
  for (Finding& finding : findings) {
    if (finding.text.empty()) continue;  // nobody reads it, so it claims nothing
    for (Comparison& test : finding.tests) {
      if (test.p) tests.push_back(&test);
    }
  }
  return tests;
}

void write_verdicts(Finding& finding) {
  auto test = finding.tests.cbegin();
  for (std::size_t at = 0; (at = finding.text.find(kVerdictHere, at)) != std::string::npos;) {
    const std::string words = verdict(*test++);
    finding.text.replace(at, 1, words);
    at += words.size();
  }
  if (finding.tests.empty()) return;
  finding.value.update(to_json(finding.tests.front()));
  finding.value["text"] = finding.text;
}

}  // namespace

std::size_t settle(std::vector<Finding>& findings) {
  const std::vector<Comparison*> tests = tests_of(findings);
  const auto p = holm(mapped(tests, [](const Comparison* test) { return *test->p; }));
  for (std::size_t i = 0; i < tests.size(); ++i) {
    tests[i]->p = p[i];
    tests[i]->family = static_cast<int>(tests.size());
  }
  for (Finding& finding : findings) write_verdicts(finding);
  return tests.size();
}

}  // namespace ddprun
