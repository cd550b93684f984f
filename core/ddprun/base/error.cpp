// The text of an error: one line a part, without what would disturb a terminal.
#include "ddprun/base/error.h"

#include "ddprun/base/text.h"

namespace ddprun {

namespace {

/// Values come from anywhere. What is wrong and where is one line each; the other parts may have
/// several, and a hint may list libraries with the reasons against them.
ErrorText cleaned(ErrorText text) {
  text.what = shortened(printable_line(text.what), 1'000);
  text.where = shortened(printable_line(text.where), 1'000);
  text.got = shortened(printable(text.got), 2'000);
  text.expected = shortened(printable(text.expected), 2'000);
  text.hint = shortened(printable(text.hint), 20'000);
  return text;
}

std::string format(const ErrorText& text) {
  std::string out = text.what;
  const auto line = [&out](const char* label, const std::string& value) {
    if (!value.empty()) out += std::string("\n  ") + label + ": " + value;
  };
  line("where", text.where);
  line("got", text.got);
  line("expected", text.expected);
  line("hint", text.hint);
  return out;
}

}  // namespace

Error::Error(ErrorText text)
    : std::runtime_error(format(text = cleaned(std::move(text)))), text_(std::move(text)) {}
Error::~Error() = default;
ConfigError::~ConfigError() = default;
PluginError::~PluginError() = default;
CommError::~CommError() = default;
PeerGoneError::~PeerGoneError() = default;

}  // namespace ddprun
