// Looks at the process, or the device, where phases end, beside the trace of its tensors.
#include "ddprun/profile/memory_recorder.h"

#include <utility>

#include "ddprun/base/clock.h"
#include "ddprun/kernels/product/workspace.h"

namespace ddprun {

MemoryRecorder::MemoryRecorder(std::shared_ptr<MemorySource> source, DeviceLook device)
    : device_(std::move(device)), before_(resident_memory()), trace_(std::move(source)) {
  to_this_.emplace(*this);
  to_trace_.emplace(trace_);
}

MemoryRecorder::~MemoryRecorder() {
  to_trace_.reset();
  to_this_.reset();
}

void MemoryRecorder::look(const std::string& name) {
  const std::int64_t begin_ns = now_ns();
  MemoryLook look{.name = name, .time_ns = trace_.time_ns(), .event = trace_.events()};
  if (device_) {
    look.device = device_();
  } else {
    look.resident = resident_memory();
    look.workspace_bytes = kernels::workspace_bytes();
  }
  looks_.push_back(std::move(look));
  trace_.leave_out(now_ns() - begin_ns);
}

void MemoryRecorder::begin_step() {
  trace_.begin_step();
  in_step_ = true;
}

void MemoryRecorder::begin(Phase phase) {
  if (in_step_ && phase == Phase::step) look("begin");
}

void MemoryRecorder::end(Phase phase) {
  if (in_step_) look(std::string("end of ") + to_string(phase));
}

MemoryAccount MemoryRecorder::end_step() {
  in_step_ = false;
  to_trace_.reset();
  to_this_.reset();
  return {trace_.end_step(), before_, std::move(looks_)};
}

}  // namespace ddprun
