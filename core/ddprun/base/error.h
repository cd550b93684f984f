// Errors that a user meets. Each says what is wrong, where, what was got, what is expected, and
// what to do.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>

namespace ddprun {

/// The parts of an error message. Error escapes control characters, cuts what is long, and leaves
/// out what is empty.
struct ErrorText {
  std::string what = {};      ///< one sentence: what is wrong
  std::string where = {};     ///< "file.yaml:12:5", a library's path, "rank 1"
  std::string got = {};       ///< the offending value
  std::string expected = {};  ///< what is allowed or available
  std::string hint = {};      ///< what to do, for example the nearest known key
};

/// Base of all errors that ddprun reports to its user. what() is the whole text, several lines.
class Error : public std::runtime_error {
 public:
  explicit Error(ErrorText text);
  ~Error() override;
  const ErrorText& text() const noexcept { return text_; }

 private:
  ErrorText text_;
};

/// Bad usage or configuration, found before any rank starts. Exit status 2.
class ConfigError : public Error {
 public:
  using Error::Error;
  ~ConfigError() override;
};

/// Returns run(). A ConfigError that it throws is thrown again with another `where`.
template <class Run>
decltype(auto) with_place(const std::string& where, const Run& run) {
  try {
    return run();
  } catch (const ConfigError& error) {
    ErrorText text = error.text();
    text.where = where;
    throw ConfigError(std::move(text));
  }
}

/// A plugin library that cannot be loaded, or a name that no library supplies. Exit status 2.
class PluginError : public Error {
 public:
  using Error::Error;
  ~PluginError() override;
};

/// A collective or the rendezvous failed: a peer died, or a timeout passed. Exit status 1.
class CommError : public Error {
 public:
  using Error::Error;
  ~CommError() override;
};

/// Another rank left, and took its end of a connection along. Its own error, if it has one, says
/// why.
class PeerGoneError : public CommError {
 public:
  using CommError::CommError;
  ~PeerGoneError() override;
};

}  // namespace ddprun
