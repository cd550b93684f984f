# Finds what CUDA support is built from, and defines the imported target LibTorch::cuda: LibTorch's CUDA libraries, the CUDA 13
# toolkit's runtime, and NCCL. Included by FindLibTorch for its component `cuda`.
#
# Sets LibTorch_cuda_FOUND; if found, LibTorch_cuda_DESCRIPTION for the log and LibTorch_cuda_RPATH, the folders of everything that
# libtorch_cuda loads; if not, LibTorch_cuda_REASON in words.
set(LibTorch_cuda_FOUND FALSE)
set(LibTorch_cuda_REASON "")

find_package(CUDAToolkit QUIET)
if(NOT CUDAToolkit_FOUND)
  set(LibTorch_cuda_REASON "no CUDA toolkit was found (CUDAToolkit_ROOT names one)")
elseif(NOT CUDAToolkit_VERSION_MAJOR EQUAL 13)
  set(LibTorch_cuda_REASON "LibTorch ${LibTorch_VERSION} is built for CUDA 13, the toolkit is ${CUDAToolkit_VERSION}")
elseif(NOT CUDAToolkit_NVCC_EXECUTABLE)
  set(LibTorch_cuda_REASON "the CUDA toolkit in ${CUDAToolkit_LIBRARY_DIR} has no nvcc, which compiles our kernels")
endif()

# Beside a LibTorch that pip installed with all it depends on; what scripts/setup.sh fetched; the toolkit.
file(GLOB _wheels LIST_DIRECTORIES true ${LibTorch_DIR_USED}/../nvidia/* ${CMAKE_CURRENT_LIST_DIR}/../.deps/cuda-${LibTorch_VERSION}/nvidia/*)
set(_library_folders ${_wheels})
list(TRANSFORM _library_folders APPEND /lib)
list(APPEND _library_folders ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_DIR}/../extras/CUPTI/lib64)
list(TRANSFORM _wheels APPEND /include OUTPUT_VARIABLE _include_folders)
file(GLOB _include_folders LIST_DIRECTORIES true ${_include_folders})  # those that are there

# Everything that libtorch_cuda is linked with: a missing one would show only when a run asks for CUDA.
set(LibTorch_cuda_RPATH "")
if(NOT LibTorch_cuda_REASON)
  foreach(_name libtorch_cuda.so libc10_cuda.so libtorch_nvshmem.so libcudart.so.13 libcupti.so.13 libcublas.so.13 libcublasLt.so.13
                libcudnn.so.9 libcufft.so.12 libcufile.so.0 libcurand.so.10 libcusparse.so.12 libcusparseLt.so.0 libnccl.so.2
                libnvshmem_host.so.3)
    find_file(_found ${_name} PATHS ${LibTorch_DIR_USED}/lib ${_library_folders} NO_DEFAULT_PATH NO_CACHE)
    if(NOT _found)
      set(LibTorch_cuda_REASON "${_name} was not found (scripts/setup.sh --with-cuda fetches what a toolkit lacks)")
      break()
    endif()
    cmake_path(GET _found PARENT_PATH _folder)
    list(APPEND LibTorch_cuda_RPATH ${_folder})
    cmake_path(GET _name STEM _stem)
    set(_file_${_stem} ${_found})
    unset(_found)
  endforeach()
  list(REMOVE_DUPLICATES LibTorch_cuda_RPATH)
  # A library that several have is that of the wheels, which are of LibTorch's own release: the toolkit's folders come last.
  cmake_path(GET CUDAToolkit_LIBRARY_DIR PARENT_PATH _toolkit)
  set(_of_toolkit ${LibTorch_cuda_RPATH})
  list(FILTER _of_toolkit INCLUDE REGEX "^${_toolkit}/")
  list(FILTER LibTorch_cuda_RPATH EXCLUDE REGEX "^${_toolkit}/")
  list(APPEND LibTorch_cuda_RPATH ${_of_toolkit})
endif()

if(NOT LibTorch_cuda_REASON)
  find_path(_nccl_include nccl.h PATHS ${_include_folders} ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH NO_CACHE)
  if(NOT _nccl_include)
    set(LibTorch_cuda_REASON "nccl.h was not found (scripts/setup.sh --with-cuda fetches it)")
  endif()
endif()

if(NOT LibTorch_cuda_REASON)
  set(LibTorch_cuda_FOUND TRUE)
  file(STRINGS ${_nccl_include}/nccl.h _lines REGEX "define NCCL_(MAJOR|MINOR|PATCH) [0-9]+")
  list(TRANSFORM _lines REPLACE ".* ([0-9]+).*" "\\1")
  list(JOIN _lines "." _nccl_version)
  set(LibTorch_cuda_DESCRIPTION "CUDA ${CUDAToolkit_VERSION} in ${CUDAToolkit_LIBRARY_DIR}, NCCL ${_nccl_version}")
  if(NOT TARGET LibTorch::cuda)
    foreach(_library c10_cuda cudart nccl)
      add_library(LibTorch::${_library} SHARED IMPORTED)
      set_target_properties(LibTorch::${_library} PROPERTIES IMPORTED_LOCATION ${_file_lib${_library}})
    endforeach()
    add_library(LibTorch::cuda SHARED IMPORTED)
    set_target_properties(LibTorch::cuda PROPERTIES IMPORTED_LOCATION ${_file_libtorch_cuda})
    # The NCCL that was found, before that of a toolkit. LibTorch's headers include those of cuBLAS, cuSPARSE and cuSOLVER, which a
    # toolkit for nvcc alone lacks, and wheels bring.
    target_include_directories(LibTorch::cuda SYSTEM INTERFACE ${_nccl_include} ${CUDAToolkit_INCLUDE_DIRS} ${_include_folders})
    target_compile_definitions(LibTorch::cuda INTERFACE USE_C10D_NCCL)
    target_link_libraries(LibTorch::cuda INTERFACE LibTorch::cpu LibTorch::c10_cuda LibTorch::cudart LibTorch::nccl)
  endif()
endif()
