// The environment variables that change what is computed, or how fast: the one list of them.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ddprun {

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
    EnvironmentVariable{"NCCL_SOCKET_IFNAME", "NCCL: interfaces", true},
    EnvironmentVariable{"NCCL_IB_HCA", "NCCL: InfiniBand adapters", true},
    EnvironmentVariable{"NCCL_TOPO_FILE", "NCCL: the host's topology", true},
    EnvironmentVariable{"UCX_NET_DEVICES", "UCX below MPI: network devices", true},
    EnvironmentVariable{"OMP_PLACES", "OpenMP: cores of threads", true},
    EnvironmentVariable{"GOMP_CPU_AFFINITY", "OpenMP: cores of threads", true},
    EnvironmentVariable{"KMP_AFFINITY", "OpenMP: cores of threads", true},
    EnvironmentVariable{"NVIDIA_TF32_OVERRIDE", "cuBLAS, cuDNN: TF32"},
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
