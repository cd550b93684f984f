# What makes compiling fast: targets share a precompiled header, as LibTorch's headers are most of what compiling a file takes, and,
# with CMAKE_UNITY_BUILD (every preset but `debug`), the files of a folder are compiled as one. What many files would compile of fmt and
# JSON, the headers leave out (compiled_once.h). Included last. The preset `debug` has none of it: a header that a file includes only
# this way is missed there.
# GCC, too, throws away what it no longer needs of memory later than by itself: the header is 500 MB of it.
# Each compile instantiates anew the templates that inline functions of its header use: 2 s of the large header. So what knows tensors,
# but hardly how to compute with them, takes a small one (0.8 s), in which LibTorch's headers include single operators: `ddprun_header`,
# a property of the target. A target that does not link LibTorch says so: DISABLE_PRECOMPILE_HEADERS.

set(fast_options "SHELL:--param ggc-min-heapsize=1500000")
# On by themselves from -O2 on; GCC 13 and newer on x86 refuse a header that was compiled with other settings of them. What is compiled
# with -O1 does not unroll loops, and does not care.
include(CheckCXXCompilerFlag)
check_cxx_compiler_flag(-munroll-only-small-loops DDPRUN_KNOWS_SMALL_LOOPS)
if(DDPRUN_KNOWS_SMALL_LOOPS)
  list(APPEND fast_options -munroll-only-small-loops -mvzeroupper)
endif()

# ddprun_precompile(<target> <header>... LIBRARIES <library>... [MACROS <macro>...]): the target, whose header others reuse.
function(ddprun_precompile target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBRARIES;MACROS")
  set(source ${CMAKE_BINARY_DIR}/${target}.cpp)
  file(TOUCH ${source})
  add_library(${target} OBJECT ${source})
  target_link_libraries(${target} PRIVATE ${arg_LIBRARIES} ddprun_warnings)
  target_compile_options(${target} PRIVATE ${fast_options})
  target_compile_definitions(${target} PRIVATE ${arg_MACROS})
  target_precompile_headers(${target} PRIVATE ${arg_UNPARSED_ARGUMENTS})
  # Macros that it saw must be those of whoever shares it.
  set(macros ${arg_LIBRARIES})
  list(TRANSFORM macros REPLACE "(.+)" "$<TARGET_PROPERTY:\\1,INTERFACE_COMPILE_DEFINITIONS>")
  set_target_properties(${target} PROPERTIES ddprun_macros "${macros};${arg_MACROS}")
endfunction()

# Headers that many files include and that take long.
set(small_headers
  ${CMAKE_CURRENT_LIST_DIR}/compiled_once.h
  <ATen/core/Tensor.h> <fmt/format.h> <fmt/ranges.h> <nlohmann/json.hpp> <spdlog/spdlog.h> <algorithm> <array> <atomic> <charconv>
  <chrono> <cmath> <condition_variable> <deque> <filesystem> <fstream> <functional> <iostream> <map> <memory> <mutex> <numeric>
  <optional> <set> <sstream> <string> <thread> <unordered_map> <vector>)
set(headers
  <ATen/Functions.h> <ATen/Parallel.h> <ATen/TensorOperators.h> <torch/csrc/autograd/function.h> <torch/csrc/autograd/variable.h>
  <torch/csrc/distributed/c10d/Backend.hpp> <torch/csrc/distributed/c10d/PrefixStore.hpp> ${small_headers})
set(libraries LibTorch::cpu spdlog::spdlog nlohmann_json::nlohmann_json)
ddprun_precompile(precompiled ${headers} LIBRARIES ${libraries})
ddprun_precompile(precompiled_small ${small_headers} LIBRARIES ${libraries} MACROS AT_PER_OPERATOR_HEADERS)
if(BUILD_TESTING)
  ddprun_precompile(precompiled_for_tests ${headers} <gmock/gmock.h> <gtest/gtest.h> LIBRARIES ${libraries} GTest::gtest GTest::gmock)
  # An option of GoogleTest's, not a definition.
  set_property(TARGET precompiled_for_tests APPEND PROPERTY ddprun_macros GTEST_HAS_PTHREAD=1)
endif()

# Folders that are compiled as one: each compile costs a second or more by itself, and small ones hardly more.
set(small_folders
  base|memory|device comm_store|comm_launch rank|dry|profile data|model optim|parallel|plugin proof|proof_attention
  config|config_schema|experiments live|experiments_arithmetic|experiments_training_findings
  experiments_attention|experiments_collectives experiments_precision|experiments_training_comparison
  runner_compare|runner_html|runner_tune)

# The files of a folder, of several small ones, or of a program of tests, as one. Highway compiles each file of kernels several times by itself.
function(ddprun_unite target)
  get_target_property(folder ${target} SOURCE_DIR)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/ddprun/kernels/")
  foreach(source ${sources})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${folder} OUTPUT_VARIABLE path)
    cmake_path(GET path PARENT_PATH group)
    string(REGEX REPLACE "^${CMAKE_SOURCE_DIR}/(core/ddprun/)?|/parts$" "" group ${group})
    string(REPLACE "/" "_" group ${group})
    foreach(folders ${small_folders})
      string(REGEX REPLACE "^(${folders})$" "${folders}" group ${group})
    endforeach()
    string(REPLACE "|" "_" group ${group})
    if(group MATCHES "^tests_")
      set(group ${target})
    endif()
    set_source_files_properties(${path} TARGET_DIRECTORY ${target} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# ddprun_compile_fast(<folder> <target of ddprun_precompile>): all targets of a folder and below it.
function(ddprun_compile_fast folder precompiled)
  get_property(targets DIRECTORY ${folder} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(target ${targets})
    get_target_property(type ${target} TYPE)
    get_target_property(apart ${target} DISABLE_PRECOMPILE_HEADERS)
    get_target_property(header ${target} ddprun_header)
    if(NOT header)
      set(header ${precompiled})
    endif()
    get_target_property(macros ${header} ddprun_macros)
    if(type MATCHES "^(EXECUTABLE|(STATIC|SHARED|MODULE|OBJECT)_LIBRARY)$" AND NOT apart)
      target_compile_definitions(${target} PRIVATE ${macros})
      target_compile_options(${target} PRIVATE ${fast_options})
      target_precompile_headers(${target} REUSE_FROM ${header})
      ddprun_unite(${target})
    endif()
  endforeach()
  get_property(inner DIRECTORY ${folder} PROPERTY SUBDIRECTORIES)
  foreach(folder ${inner})
    ddprun_compile_fast(${folder} ${precompiled})
  endforeach()
endfunction()
get_property(folders DIRECTORY ${CMAKE_SOURCE_DIR} PROPERTY SUBDIRECTORIES)
foreach(folder ${folders})
  if(folder STREQUAL "${CMAKE_SOURCE_DIR}/tests")
    ddprun_compile_fast(${folder} precompiled_for_tests)
  else()
    ddprun_compile_fast(${folder} precompiled)
  endif()
endforeach()
