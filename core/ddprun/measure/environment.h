// What machine and software a result was measured on, which cores this process may use, and which
// environment variables change what is computed, or how fast.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

/// Facts for result.json, in order: cpu model, cores, simd, products (of bfloat16), float32
/// products, memory, kernel, hostname, torch, gloo, compiler, build type, ddprun version, time;
/// then set_variables(). Throws as bf16_products().
std::vector<std::pair<std::string, std::string>> describe_environment();
/// One of them: "torch"; "unknown" if there is none of that name.
std::string environment_fact(const std::string& name);

/// kernels::product_path(). Throws ConfigError if DDPRUN_PRODUCTS names none that this CPU has.
std::string bf16_products();

/// The cores in this thread's affinity (sched_getaffinity). Throws std::system_error.
std::vector<int> usable_cores();
/// The CPU time that this process's cgroups allow it a second, in cores: the smallest quota among
/// its own and those above (v2's cpu.max, v1's cpu.cfs_quota_us). It says how much, and not where:
/// processes under a quota may run on all their cores. Nothing: there is no limit. `root`: what
/// /proc and /sys lie under.
std::optional<double> cpu_quota(const std::filesystem::path& root = "/");
/// One a usable core, and no more than the quota has room for; at least 1.
int usable_threads();

/// Bytes, of the first line "KEY: 16384 kB" of a file under /proc; 0 if there is none.
std::int64_t proc_bytes(const char* file, const std::string& key);

/// Peak resident set of this process in bytes (VmHWM).
std::int64_t peak_resident_bytes();

struct EnvironmentVariable {
  std::string_view name;     ///< "NCCL_*" is all that begin with NCCL_
  std::string_view changes;  ///< who reads it, and what for
  /// Whether ranks of a launch may have values of their own, such as a device or an interface.
  bool own_of_a_rank = false;
};

/// The first that fits a name counts.
inline constexpr std::array kEnvironmentVariables = {
    EnvironmentVariable{"DDPRUN_PRODUCTS", "ddprun: what multiplies matrices"},
    EnvironmentVariable{"CUDA_VISIBLE_DEVICES", "CUDA: which GPUs there are", true},
    EnvironmentVariable{"NCCL_HOSTID", "NCCL: which ranks share a host", true},
    EnvironmentVariable{"GLOO_SOCKET_IFNAME", "gloo: interfaces, without world.interface", true},
    EnvironmentVariable{"NCCL_SOCKET_IFNAME", "NCCL: interfaces", true},
    EnvironmentVariable{"NCCL_IB_HCA", "NCCL: InfiniBand adapters", true},
    EnvironmentVariable{"NCCL_TOPO_FILE", "NCCL: the host's topology", true},
    EnvironmentVariable{"UCX_NET_DEVICES", "UCX below MPI: network devices", true},
    EnvironmentVariable{"OMP_PLACES", "OpenMP: cores of threads", true},
    EnvironmentVariable{"GOMP_CPU_AFFINITY", "OpenMP: cores of threads", true},
    EnvironmentVariable{"KMP_AFFINITY", "OpenMP: cores of threads", true},
    EnvironmentVariable{"NVIDIA_TF32_OVERRIDE", "cuBLAS, cuDNN: TF32"},
    EnvironmentVariable{"GLOO_*", "gloo: transport, connections"},
    EnvironmentVariable{"TORCH_GLOO_*", "LibTorch: when gloo connects"},
    EnvironmentVariable{"NCCL_*", "NCCL: algorithms, protocols, buffers"},
    EnvironmentVariable{"TORCH_NCCL_*", "LibTorch: NCCL's watchdog and records"},
    EnvironmentVariable{"TORCH_FR_*", "LibTorch: records of collectives"},
    EnvironmentVariable{"TORCH_ALLOW_*", "LibTorch: TF32"},
    EnvironmentVariable{"TORCH_BLAS_*", "LibTorch: which library multiplies"},
    EnvironmentVariable{"TORCH_CUDNN_*", "LibTorch: kernels of cuDNN"},
    EnvironmentVariable{"PYTORCH_*", "LibTorch: allocators"},
    EnvironmentVariable{"ATEN_*", "LibTorch: instructions of its kernels"},
    EnvironmentVariable{"CUDA_DEVICE_*", "CUDA: order of GPUs, queues"},
    EnvironmentVariable{"CUDA_LAUNCH_BLOCKING", "CUDA: each launch is waited for"},
    EnvironmentVariable{"CUDA_MODULE_LOADING", "CUDA: kernels are loaded at once or when called"},
    EnvironmentVariable{"CUDA_FORCE_*", "CUDA: kernels are compiled anew"},
    EnvironmentVariable{"CUBLAS_*", "cuBLAS: workspaces, logs"},
    EnvironmentVariable{"CUBLASLT_*", "cuBLASLt: workspaces, logs"},
    EnvironmentVariable{"CUDNN_*", "cuDNN: kernels, logs"},
    EnvironmentVariable{"MKL_*", "MKL: threads, instructions, reproducible sums"},
    EnvironmentVariable{"DNNL_*", "oneDNN: instructions, precision of float32"},
    EnvironmentVariable{"ONEDNN_*", "oneDNN: instructions, precision of float32"},
    EnvironmentVariable{"OMP_*", "OpenMP: threads, how they wait"},
    EnvironmentVariable{"GOMP_*", "OpenMP: threads, how they wait"},
    EnvironmentVariable{"KMP_*", "OpenMP: threads, how they wait"},
    EnvironmentVariable{"UCX_*", "UCX below MPI: transports, protocols"},
    EnvironmentVariable{"MALLOC_*", "malloc: arenas, thresholds"},
    EnvironmentVariable{"TCMALLOC_*", "tcmalloc"},
    EnvironmentVariable{"GLIBC_TUNABLES", "glibc: malloc, string functions"},
    EnvironmentVariable{"LD_PRELOAD", "the loader: libraries in place of others"},
};

/// The declaration of a variable of that name; null: it changes nothing that is known.
const EnvironmentVariable* declared_variable(std::string_view name);

/// Those of them that are set, name and value, in alphabetical order: as they were at the first
/// call, since a rank may set some for its libraries.
const std::vector<std::pair<std::string, std::string>>& set_variables();

}  // namespace ddprun
