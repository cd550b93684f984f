// Shows progress while experiments run: a bar on a terminal, plain lines elsewhere. It goes to
// stderr, so that stdout has the report alone.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "ddprun/config/run_context.h"
#include "runner/report/terminal.h"

namespace ddprun {

class ProgressDisplay {
 public:
  enum class Mode {
    silent,   ///< messages only (--quiet)
    plain,    ///< a line when a run starts and ends
    verbose,  ///< plain, and a line a second (-v, not on a terminal)
    bar,      ///< one line that moves
  };

  ProgressDisplay(std::FILE* stream, Mode mode, int width)
      : stream_(stream), mode_(mode), width_(width) {}
  ~ProgressDisplay() { clear(); }
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void begin_run(int index, int count, const std::string& name, std::int64_t ranks);
  void update(const Progress& progress);
  /// `text`: "12.3 ms/step" or why the run failed.
  void end_run(const std::string& text);
  /// A line of its own (a log line, a warning), whatever the mode.
  void message(const std::string& text);

 private:
  void clear();
  void draw(const std::string& text);

  std::FILE* stream_;
  Mode mode_;
  int width_;
  std::string name_;           ///< "[2/6] flat"
  std::int64_t begin_ns_ = 0;  ///< of the run
  std::int64_t first_ns_ = 0;  ///< its first update, from which the remaining time is estimated
  std::int64_t first_step_ = 0;
  std::int64_t last_line_ns_ = 0;
  bool drawn_ = false;
};

}  // namespace ddprun
