# Finds NVTX's headers (profiler ranges; no library belongs to them) and defines the target nvtx3: beside a LibTorch that pip
# installed with all it depends on, where scripts/setup.sh put them, in a CUDA toolkit, in the system's own folders.
file(GLOB _nvtx3_wheels LIST_DIRECTORIES true
  ${LibTorch_DIR_USED}/../nvidia/*/include ${CMAKE_CURRENT_LIST_DIR}/../.deps/nvtx-site/nvidia/*/include)
find_path(_nvtx3_include nvtx3/nvToolsExt.h
  HINTS ${_nvtx3_wheels} ${CUDAToolkit_INCLUDE_DIRS} ENV CUDAToolkit_ROOT ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include NO_CACHE)
if(NOT _nvtx3_include)
  message(FATAL_ERROR "nvtx3/nvToolsExt.h was not found: run scripts/setup.sh, which fetches it")
endif()
add_library(nvtx3 INTERFACE)
target_include_directories(nvtx3 SYSTEM INTERFACE ${_nvtx3_include})
