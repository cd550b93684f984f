// What most tests need: GoogleTest, its matchers by their own names, and what a call throws.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "ddprun/base/error.h"

namespace ddprun {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::ContainsRegex;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::IsSupersetOf;
using testing::MatchesRegex;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;
using testing::UnorderedElementsAre;

}  // namespace ddprun

namespace ddprun::test {

/// The parts of the Error that `call` throws; fails the test if it throws none.
template <class Expected = Error, class Call>
ErrorText error_text_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.text();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// The whole message of what `call` throws, or "no error".
template <class Expected = Error, class Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const Expected& error) {
    return error.what();
  }
  return "no error";
}

/// The whole message of an error with these parts.
inline std::string message_of(const std::string& what, const std::string& where,
                              const std::string& got, const std::string& expected,
                              const std::string& hint) {
  return Error({what, where, got, expected, hint}).what();
}

}  // namespace ddprun::test
