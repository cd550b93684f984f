// Counts who wants torch's log quiet, and restores its level after the last of them.
#include "ddprun/comm/quiet_log.h"

#include <c10/util/Logging.h>

#include <cstdlib>
#include <mutex>

namespace ddprun {

namespace {

struct Wishes {
  std::mutex mutex;
  int count = 0;
  int level = 0;  // before the first of them
};

Wishes& wishes() {
  static auto& all = *new Wishes;  // outlives whatever a process still holds at its end
  return all;
}

}  // namespace

QuietLog::QuietLog() {
  Wishes& all = wishes();
  const std::lock_guard lock(all.mutex);
  if (all.count++ > 0) return;
  all.level = FLAGS_caffe2_log_level;
  if (std::getenv("TORCH_CPP_LOG_LEVEL") == nullptr) FLAGS_caffe2_log_level = c10::GLOG_FATAL;
}

QuietLog::~QuietLog() {
  Wishes& all = wishes();
  const std::lock_guard lock(all.mutex);
  if (--all.count == 0) FLAGS_caffe2_log_level = all.level;
}

}  // namespace ddprun
