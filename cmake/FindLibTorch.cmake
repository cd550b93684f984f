# Finds LibTorch's CPU libraries and defines the imported target LibTorch::cpu; needs no CUDA toolkit.
#
# LIBTORCH_DIR, a CMake or an environment variable, is a folder that holds include/ and lib/: an unpacked LibTorch, or the `torch`
# folder of the wheel. If it is given, no other is looked at; else the one that ddprun was built with (an installed ddprun's
# package sets DDPRUN_LIBTORCH_DIR), else .deps/torch-site/torch, where scripts/setup.sh puts the wheel.
# Sets LibTorch_FOUND, LibTorch_VERSION, LibTorch_DIR_USED.
# The optional component `cuda` adds the target LibTorch::cuda where a CUDA toolkit is (find_libtorch_cuda.cmake).

# The environment counts when a build folder is first configured, as CXX does: CMake runs again by itself without it.
set(LIBTORCH_DIR "$ENV{LIBTORCH_DIR}" CACHE PATH "LibTorch folder (holds include/ and lib/); empty: the one that scripts/setup.sh installed")
if(LIBTORCH_DIR)
  set(_candidates ${LIBTORCH_DIR})
elseif(DDPRUN_LIBTORCH_DIR)
  set(_candidates ${DDPRUN_LIBTORCH_DIR})
else()
  # The folder of its version, so that a later choice of another changes no file of a build that has this one.
  file(REAL_PATH ${CMAKE_CURRENT_LIST_DIR}/../.deps/torch-site/torch _candidates)
endif()

# Not cached: a changed LIBTORCH_DIR takes effect at once.
find_path(LibTorch_INCLUDE_DIR ATen/ATen.h PATHS ${_candidates} PATH_SUFFIXES include NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_cpu_LIBRARY torch_cpu PATHS ${_candidates} PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)
find_library(LibTorch_c10_LIBRARY c10 PATHS ${_candidates} PATH_SUFFIXES lib NO_DEFAULT_PATH NO_CACHE)

if(LibTorch_INCLUDE_DIR)
  string(REGEX REPLACE "/include/?$" "" LibTorch_DIR_USED ${LibTorch_INCLUDE_DIR})
  set(_header ${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h)
  set(LibTorch_VERSION "")
  foreach(_part MAJOR MINOR PATCH)
    file(STRINGS ${_header} _line REGEX "define TORCH_VERSION_${_part} ")
    string(REGEX REPLACE ".*_${_part} ([0-9]+).*" "\\1" _number "${_line}")
    string(APPEND LibTorch_VERSION "${_number}.")
  endforeach()
  string(REGEX REPLACE "\\.$" "" LibTorch_VERSION "${LibTorch_VERSION}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_cpu_LIBRARY LibTorch_c10_LIBRARY LibTorch_INCLUDE_DIR
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "not in ${_candidates}: run scripts/setup.sh, or pass -DLIBTORCH_DIR=/path/to/libtorch")

if(LibTorch_FOUND AND NOT TARGET LibTorch::cpu)
  find_package(Threads REQUIRED)
  add_library(LibTorch::c10 SHARED IMPORTED)
  set_target_properties(LibTorch::c10 PROPERTIES IMPORTED_LOCATION ${LibTorch_c10_LIBRARY})
  add_library(LibTorch::cpu SHARED IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES IMPORTED_LOCATION ${LibTorch_cpu_LIBRARY})
  # LibTorch ships its own copy of {fmt}, which must not hide the one that spdlog was built with: its headers are seen through
  # a folder of links to all of its entries but that one.
  # Named by the version: a build folder that takes another one compiles anew, though the files of that may be older.
  set(_headers ${CMAKE_BINARY_DIR}/libtorch_headers_${LibTorch_VERSION})
  file(REMOVE_RECURSE ${_headers})
  file(MAKE_DIRECTORY ${_headers})
  file(GLOB _entries RELATIVE ${LibTorch_INCLUDE_DIR} ${LibTorch_INCLUDE_DIR}/*)
  list(REMOVE_ITEM _entries fmt)
  foreach(_entry ${_entries})
    file(CREATE_LINK ${LibTorch_INCLUDE_DIR}/${_entry} ${_headers}/${_entry} SYMBOLIC)
  endforeach()
  target_include_directories(LibTorch::cpu SYSTEM INTERFACE ${_headers} ${_headers}/torch/csrc/api/include)
  target_compile_definitions(LibTorch::cpu INTERFACE _GLIBCXX_USE_CXX11_ABI=1 USE_DISTRIBUTED USE_C10D_GLOO)
  # The wheel's libtorch_cpu finds its own needs (libcudart, libcupti) through its RPATH, and, where they are not beside it, through
  # ours, in a toolkit.
  target_link_libraries(LibTorch::cpu INTERFACE LibTorch::c10 Threads::Threads)
  target_link_options(LibTorch::cpu INTERFACE -Wl,--disable-new-dtags -Wl,--allow-shlib-undefined)
  file(GLOB _beside ${LibTorch_DIR_USED}/../nvidia/*/lib/libcudart.so.13)
  if(NOT _beside AND EXISTS /usr/local/cuda/lib64/libcudart.so.13)
    target_link_options(LibTorch::cpu INTERFACE -Wl,-rpath,/usr/local/cuda/lib64 -Wl,-rpath,/usr/local/cuda/extras/CUPTI/lib64)
  endif()
endif()

if(LibTorch_FOUND AND "cuda" IN_LIST LibTorch_FIND_COMPONENTS)
  include(${CMAKE_CURRENT_LIST_DIR}/find_libtorch_cuda.cmake)
endif()
