// Ranges by NVTX's headers, which load a profiler if NVTX_INJECTION64_PATH names one.
#include "ddprun/measure/profiler_range.h"

#include <nvtx3/nvToolsExt.h>

namespace ddprun {

namespace {

/// Null: no profiler listens. Asked at the first range, so by ranks, and not by who forks them.
nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("ddprun");
  return handle;
}

nvtxEventAttributes_t attributes(const char* message, std::int64_t payload) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = message;
  event.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  event.payload.llValue = payload;
  return event;
}

}  // namespace

ProfilerRange::ProfilerRange(const char* name, std::int64_t payload)
    : pushed_(domain() != nullptr) {
  if (!pushed_) return;
  const auto event = attributes(name, payload);
  nvtxDomainRangePushEx(domain(), &event);
}

ProfilerRange::~ProfilerRange() {
  if (pushed_) nvtxDomainRangePop(domain());
}

ProfilerSpan::ProfilerSpan(const char* kind, const std::string& label, std::int64_t payload)
    : started_(domain() != nullptr) {
  if (!started_) return;
  const std::string name = std::string(kind) + ": " + label;
  const auto event = attributes(name.c_str(), payload);
  id_ = nvtxDomainRangeStartEx(domain(), &event);
}

ProfilerSpan::~ProfilerSpan() {
  if (started_) nvtxDomainRangeEnd(domain(), id_);
}

}  // namespace ddprun
