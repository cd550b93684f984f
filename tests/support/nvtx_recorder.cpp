// A profiler in a few lines: a library that NVTX loads by NVTX_INJECTION64_PATH, and that writes
// each call as a line into the file that NVTX_RECORDER_FILE names.
#include <fcntl.h>
#include <nvtx3/nvToolsExt.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

/// "<process> <thread> <what> <id of a span> <payload> <message>", appended as one write.
void note(const char* what, unsigned long long id, long long payload, const char* message) {
  static const int file =
      open(std::getenv("NVTX_RECORDER_FILE"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  char line[512];
  const int length = std::snprintf(line, sizeof line, "%d %d %s %llu %lld %s\n", getpid(), gettid(),
                                   what, id, payload, message);
  if (write(file, line, static_cast<std::size_t>(length)) != length) std::abort();
}

/// Calls of other domains are not ours to note.
int ours = 0;
nvtxDomainHandle_t create(const char* name) {
  if (std::strcmp(name, "ddprun") == 0) return reinterpret_cast<nvtxDomainHandle_t>(&ours);
  return nullptr;
}
bool is_ours(nvtxDomainHandle_t domain) { return domain == create("ddprun"); }

int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  if (is_ours(domain)) note("push", 0, event->payload.llValue, event->message.ascii);
  return 0;
}

int pop(nvtxDomainHandle_t domain) {
  if (is_ours(domain)) note("pop", 0, 0, "");
  return 0;
}

nvtxRangeId_t start(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* event) {
  static std::atomic<nvtxRangeId_t> next = 1;
  const nvtxRangeId_t id = next++;
  if (is_ours(domain)) note("start", id, event->payload.llValue, event->message.ascii);
  return id;
}

void end(nvtxDomainHandle_t domain, nvtxRangeId_t id) {
  if (is_ours(domain)) note("end", id, 0, "");
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_export_table) {
  const auto* callbacks =
      static_cast<const NvtxExportTableCallbacks*>(get_export_table(NVTX_ETID_CALLBACKS));
  NvtxFunctionTable table = nullptr;
  unsigned size = 0;
  if (callbacks == nullptr ||
      callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size) == 0) {
    return 0;
  }
  const auto set = [table](NvtxCallbackIdCore2 which, auto* function) {
    *table[which] = reinterpret_cast<NvtxFunctionPointer>(function);
  };
  set(NVTX_CBID_CORE2_DomainCreateA, create);
  set(NVTX_CBID_CORE2_DomainRangePushEx, push);
  set(NVTX_CBID_CORE2_DomainRangePop, pop);
  set(NVTX_CBID_CORE2_DomainRangeStartEx, start);
  set(NVTX_CBID_CORE2_DomainRangeEnd, end);
  return 1;
}
