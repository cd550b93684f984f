// fuzz_inputs COUNT [--seed N] [--target NAME] [--save DIR]: tries bad inputs in process, COUNT in
// all, and reports what crashes, hangs, takes over a second, or throws anything but ddprun::Error.
//
// Batches run in forked processes, so a crash is known by its input. Each input comes from the seed
// and its number alone: a finding is made again by --seed. It is saved, and tried with the program.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>
#include <stdexcept>

#include "ddprun/base/child_process.h"
#include "ddprun/base/clock.h"
#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/text.h"
#include "faults/fuzz/target.h"

namespace ddprun::fuzz {

namespace fs = std::filesystem;

std::vector<std::unique_ptr<Target>> all_targets(const fs::path& source, const fs::path& build) {
  std::vector<std::unique_ptr<Target>> targets;
  targets.push_back(yaml_target(source));
  targets.push_back(tree_target(source));
  targets.push_back(set_target(source));
  targets.push_back(data_target());
  targets.push_back(result_target());
  targets.push_back(checkpoint_target(build));
  targets.push_back(tokenizer_target());
  targets.push_back(plugin_target(build));
  return targets;
}

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + file.string());
  return {std::istreambuf_iterator<char>(in), {}};
}

void write(const fs::path& file, const std::string& bytes) {
  if (!(std::ofstream(file, std::ios::binary) << bytes)) {
    throw std::runtime_error("cannot write " + file.string());
  }
}

namespace {

constexpr double kLimitS = 1;         // of the processor, for one input
constexpr double kBatchLimitS = 120;  // of the wall clock; what hangs is ended

struct Request {
  std::size_t count = 3000;
  std::uint64_t seed = 1;
  std::string only;
  std::string save = "fuzz_findings";
};

std::string input_of(const Target& target, std::uint64_t seed, std::size_t number) {
  Dice dice(hash64(fmt::format("{} {} {}", target.facts.name, seed, number)));
  return target.make(dice);
}

double cpu_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

/// One letter for what became of the input; after an 'F' why it is a finding.
std::string try_input(Target& target, const std::string& input, const fs::path& scratch) {
  const double begin = cpu_seconds();
  std::string verdict;
  try {
    verdict = target.run(input, scratch) == Verdict::accepted ? "A" : "R";
  } catch (const Error&) {
    verdict = "R";
  } catch (const std::exception& error) {
    return fmt::format("Fthrew {}: {}", typeid(error).name(),
                       printable_line(shortened(error.what(), 500)));
  } catch (...) {
    return "Fthrew what is no std::exception";
  }
  const double spent = cpu_seconds() - begin;
  return spent > kLimitS ? fmt::format("Ftook {:.1f} s of the processor", spent) : verdict;
}

/// What asks for all memory shall not get it from others. A sanitizer's own address space is
/// larger.
void limit_memory() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  constexpr rlim_t kAddressSpace = rlim_t{16} << 30;
  const rlimit limit = {kAddressSpace, kAddressSpace};
  setrlimit(RLIMIT_AS, &limit);
#endif
}

class Fuzzer {
 public:
  explicit Fuzzer(Request request) : request_(std::move(request)) {
    std::string pattern = fs::temp_directory_path() / "ddprun-fuzz-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    scratch_ = pattern;
  }
  ~Fuzzer() { fs::remove_all(scratch_); }
  Fuzzer(const Fuzzer&) = delete;
  Fuzzer& operator=(const Fuzzer&) = delete;

  int run() {
    const std::int64_t begin_ns = now_ns();
    std::size_t tried = 0;
    for (const auto& target : all_targets(DDPRUN_SOURCE_DIR, DDPRUN_BUILD_DIR)) {
      if (!request_.only.empty() && target->facts.name != request_.only) continue;
      const int share = request_.only.empty() ? target->facts.share : 1000;
      const std::size_t count = request_.count * static_cast<std::size_t>(share) / 1000;
      fuzz(*target, count);
      tried += count;
    }
    std::cout << fmt::format("{} inputs in {:.0f} s, seed {}: {} findings\n",
                             with_thousands(static_cast<std::int64_t>(tried)),
                             to_ms(now_ns() - begin_ns) * 1e-3, request_.seed, findings_);
    return findings_ == 0 && tried > 0 ? 0 : 1;
  }

 private:
  void fuzz(Target& target, std::size_t count) {
    const std::int64_t begin_ns = now_ns();
    std::map<char, std::size_t> verdicts;
    for (std::size_t first = 0; first < count;) {
      const std::size_t end = std::min(count, first + target.facts.batch);
      const ChildReport report = run_batch(target, first, end);
      std::istringstream lines(report.text);
      for (std::string line; std::getline(lines, line); ++first) {
        ++verdicts[line[0]];
        if (line[0] == 'F') finding(target, first, line.substr(1));
      }
      if (first >= end) continue;
      if (target.is_refusal(report.death)) {
        ++verdicts['R'];
        ++first;
      } else {  // it ended the process
        ++verdicts['F'];
        finding(target, first++, report.death.empty() ? "left no word" : report.death);
      }
    }
    std::cout << fmt::format("{:<7} {:>7}: {} accepted, {} refused, {} findings, {:.1f} s\n",
                             target.facts.name, count, verdicts['A'], verdicts['R'], verdicts['F'],
                             to_ms(now_ns() - begin_ns) * 1e-3)
              << std::flush;
  }

  ChildReport run_batch(Target& target, std::size_t first, std::size_t end) {
    const fs::path folder = scratch_ / "inputs";
    fs::create_directory(folder);
    ChildReport report = run_in_child(
        [&](int fd) {
          limit_memory();
          for (std::size_t i = first; i < end; ++i) {
            write_all(fd, try_input(target, input_of(target, request_.seed, i), folder) + "\n");
          }
        },
        kBatchLimitS);
    fs::remove_all(folder);
    return report;
  }

  /// Saves the input, and says what the program makes of it.
  void finding(const Target& target, std::size_t number, const std::string& why) {
    ++findings_;
    const fs::path folder = fs::absolute(request_.save) /
                            fmt::format("{}-{}-{}", target.facts.name, request_.seed, number);
    fs::create_directories(folder);
    const fs::path file = folder / target.facts.file_name;
    write(file, input_of(target, request_.seed, number));
    std::cout << fmt::format("finding: {}\n  {}\n", file.string(), why);
    const std::vector<std::string> arguments = target.replay(file);
    if (arguments.empty()) return;
    const ChildReport report = run_in_child([&](int) { become_ddprun(arguments); }, 60);
    std::cout << fmt::format("  replayed by the program: {}\n", report.death) << std::flush;
  }

  static void become_ddprun(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), DDPRUN_BUILD_DIR "/bin/ddprun");
    std::vector<char*> argv;
    for (std::string& word : arguments) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv(argv[0], argv.data());
  }

  Request request_;
  fs::path scratch_;
  std::size_t findings_ = 0;
};

int main_of(int argc, char** argv) {
  Request request;
  CLI::App app("Tries bad inputs in process.", "fuzz_inputs");
  app.add_option("count", request.count, "Inputs in all")->capture_default_str();
  app.add_option("--seed", request.seed, "Chooses the inputs")->capture_default_str();
  app.add_option("--target", request.only, "yaml, tree, set, data, result or plugin alone");
  app.add_option("--save", request.save, "Folder of the findings")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return Fuzzer(std::move(request)).run();
}

}  // namespace

}  // namespace ddprun::fuzz

int main(int argc, char** argv) { return ddprun::fuzz::main_of(argc, argv); }
