// The text of an error: one line a part.
#include "ddprun/base/error.h"

namespace ddprun {

namespace {

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

Error::Error(ErrorText text) : std::runtime_error(format(text)), text_(std::move(text)) {}
Error::~Error() = default;
ConfigError::~ConfigError() = default;
PluginError::~PluginError() = default;
CommError::~CommError() = default;

}  // namespace ddprun
