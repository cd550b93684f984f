// The kinds of failures, and what they tell a user to do.
#include "ddprun/comm/store/comm_failure.h"

#include <c10/util/Exception.h>

#include "ddprun/base/failure.h"

namespace ddprun {

namespace {

bool is_timeout(const std::exception& failure) {
  // c10d's stores throw the latter for a key that does not come in time.
  return dynamic_cast<const TimeoutError*>(&failure) != nullptr ||
         dynamic_cast<const c10::DistStoreError*>(&failure) != nullptr;
}

bool is_peer_gone(const std::exception& failure) {
  return dynamic_cast<const PeerGoneError*>(&failure) != nullptr;
}

const char* hint_for(const std::exception& failure) {
  if (is_timeout(failure)) {
    return "a rank is missing, hangs, waits for something else, or is slower than `timeout_s` "
           "under `world:` allows: see the messages of the other ranks";
  }
  return is_peer_gone(failure) ? "another rank ended; its own message says why"
                               : "see the messages of the other ranks";
}

}  // namespace

void throw_same_kind(const std::exception& failure, ErrorText text) {
  if (is_timeout(failure)) throw TimeoutError(std::move(text));
  if (is_peer_gone(failure)) throw PeerGoneError(std::move(text));
  throw CommError(std::move(text));
}

void throw_comm_error(const std::exception& failure, ErrorText text) {
  const auto* own = dynamic_cast<const Error*>(&failure);
  if ((own != nullptr && !own->text().where.empty()) || says_out_of_memory(failure)) throw;
  if (text.got.empty()) text.got = first_line_of(failure);
  if (says_no_thread(failure)) text.hint = kNoThreadHint;
  if (text.hint.empty()) text.hint = hint_for(failure);
  throw_same_kind(failure, std::move(text));
}

}  // namespace ddprun
