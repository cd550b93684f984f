// Keeps torch's own log quiet while ranks meet and NCCL watches them.
#pragma once

namespace ddprun {

/// Silences torch's log while one of these lives, unless the user chose a level
/// (TORCH_CPP_LOG_LEVEL): what goes wrong is in our exceptions, and torch would print each failed
/// attempt with a stack trace. Any thread; lifetimes may overlap in any order.
class QuietLog {
 public:
  QuietLog();
  ~QuietLog();
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;
};

}  // namespace ddprun
