// How the communication fails, told by types: a wait that lasted too long, a rank that left.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "ddprun/base/error.h"

namespace ddprun {

/// A rank waited for another one, or for the store, for longer than it may.
class TimeoutError : public CommError {
 public:
  using CommError::CommError;
};

/// A backend throws TimeoutError, PeerGoneError or CommError of these words alone; who called it
/// adds the other parts by the functions below.
inline ErrorText cause(std::string words) {
  ErrorText text;
  text.what = std::move(words);
  return text;
}

// `failure` is the exception that is being handled.

/// Throws an error of the failure's kind with this text.
[[noreturn]] void throw_same_kind(const std::exception& failure, ErrorText text);

/// Throws the failure as an error with this text. Where the text has none, the failure's first line
/// is `got`, and its kind gives the hint, as want of threads does always. An error that says where
/// it happened goes on as it is, and so does memory that ran out, which is this rank's own doing.
[[noreturn]] void throw_comm_error(const std::exception& failure, ErrorText text);

}  // namespace ddprun
