# ddprun_test_program(<program> <tested> <file>...): a GoogleTest program with the main of tests/support/test_main.cpp, of what the
# library <tested> holds.
function(ddprun_test_program program tested)
  add_executable(${program} ${ARGN})
  target_link_libraries(${program} PRIVATE ${tested} ddprun_warnings test_main GTest::gtest GTest::gmock
    nlohmann_json::nlohmann_json)
  target_include_directories(${program} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${program} PRIVATE DDPRUN_BUILD_DIR="${CMAKE_BINARY_DIR}" DDPRUN_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # Compiling takes less than half as long as with -O3, and what is tested lies in libraries.
  target_compile_options(${program} PRIVATE $<$<CONFIG:Release>:-Og>)
endfunction()

# ddprun_add_test(<program> LABEL <label> [OF <tested>] [CASES_PER_TEST <number>] [GATHER_BELOW <number>] [ALONE <regex>] [WAITING <regex>]
# SOURCES <file>...):
# such a program and its ctest tests; tested is ddprun_core where nothing is said. Tests whose names match ALONE run while no other one
# does: they judge times, and need the cores. A suite whose name matches WAITING mostly waits: it is one test, four of its cases at once.
# Each suite is a test, <label>.<Suite>, whose cases run in one process; a suite of more cases is split into tests of about the
# same size, <label>.<Suite>.1of4. CASES_PER_TEST 1: each case is a test, <label>.<Suite>.<Case>, and has a process of its own.
# GATHER_BELOW: suites of so many cases and fewer are one test, <label>.<folder>.2, up to about that number, as LibTorch takes a third of
# a second to load.
# ctest asks the program for its cases when it starts (list_tests.cmake), so a build folder's tests are those of its programs.
function(ddprun_add_test program)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "LABEL;OF;CASES_PER_TEST;GATHER_BELOW;ALONE;WAITING" "SOURCES")
  if(NOT arg_OF)
    set(arg_OF ddprun_core)
  endif()
  # Some twenty seconds of the contract's cases: short beside the whole, so that parallel jobs end together, and enough to share
  # what a process computes once (the run of one process that they are compared with).
  if(NOT arg_CASES_PER_TEST)
    set(arg_CASES_PER_TEST 150)
  endif()
  if(NOT arg_GATHER_BELOW)
    set(arg_GATHER_BELOW 0)
  endif()
  ddprun_test_program(${program} ${arg_OF} ${arg_SOURCES})
  set(script ${CMAKE_CURRENT_BINARY_DIR}/${program}_tests.cmake)
  file(GENERATE OUTPUT ${script} CONTENT "include(${CMAKE_SOURCE_DIR}/cmake/list_tests.cmake)
list_tests([[$<TARGET_FILE:${program}>]] [[${arg_LABEL}]] ${arg_CASES_PER_TEST} [[${arg_ALONE}]] [[${arg_WAITING}]] ${arg_GATHER_BELOW})\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${script})
endfunction()

# ddprun_test_library(<target> <path> <object library> [<symbol> <name>]): tests/<path>.so in the build folder, of what was compiled
# once for several. <symbol>, which ddprun looks for in a library, is <name> in this one.
function(ddprun_test_library target path objects)
  cmake_path(GET path PARENT_PATH folder)
  cmake_path(GET path FILENAME file)
  add_library(${target} MODULE $<TARGET_OBJECTS:${objects}>)
  target_link_libraries(${target} PRIVATE ddprun_core)
  if(ARGC GREATER 3)
    target_link_options(${target} PRIVATE -Wl,--defsym=${ARGV3}=${ARGV4})
  endif()
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX PREFIX "" OUTPUT_NAME ${file} DISABLE_PRECOMPILE_HEADERS ON
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests/${folder})
endfunction()
