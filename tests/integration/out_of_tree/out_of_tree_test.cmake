# The path of docs/writing_a_plugin.md: install ddprun, build a strategy out of tree against it, compare it with a built-in one.
#   cmake -DBUILD=... -DEXAMPLE=... -DWORK=... -DLAUNCHER=... -P out_of_tree_test.cmake
cmake_minimum_required(VERSION 3.25)

# must(<variable for the output> <command>...): runs the command, without the variable that would hide a wrong RPATH.
function(must output)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=LD_LIBRARY_PATH --unset=DDPRUN_PLUGIN_PATH -- ${ARGN}
    WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE status)
  message(STATUS "${ARGN}\n${text}")
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "exit status ${status}: ${ARGN}")
  endif()
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

function(must_match text)
  foreach(pattern ${ARGN})
    if(NOT text MATCHES "${pattern}")
      message(FATAL_ERROR "the output does not match '${pattern}'")
    endif()
  endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
must(ignored ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
foreach(file bin/ddprun lib/libddprun_core.so include/ddprun/plugin/strategy.h lib/cmake/ddprun/ddprunConfig.cmake)
  if(NOT EXISTS ${WORK}/prefix/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

if(EXISTS ${WORK}/prefix/include/ddprun/ddprun)
  message(FATAL_ERROR "headers were installed a folder too deep")
endif()

# A copy, so that nothing of the tree is beside it.
file(COPY ${EXAMPLE} DESTINATION ${WORK})
set(example ${WORK}/chunked)
must(ignored ${CMAKE_COMMAND} -S ${example} -B ${example}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
must(ignored ${CMAKE_COMMAND} --build ${example}/build)

set(ddprun ${WORK}/prefix/bin/ddprun)
must(list ${ddprun} list --plugin-path ${example}/build)
must_match("${list}" chunked bucketed ${example}/build/strategy_chunked.so ${WORK}/prefix/lib/ddprun/plugins)
must(described ${ddprun} describe chunked --plugin-path ${example}/build)
must_match("${described}" chunks 1024)
must(table ${ddprun} ${example}/compare.yaml --plugin-path ${example}/build)
must_match("${table}" flat "chunks=16" "proved in 4 of 4 rows")

# The strategy keeps the contract that the built-in ones keep.
must(contract ${CMAKE_COMMAND} -E env DDPRUN_PLUGIN_PATH=${example}/build ${BUILD}/bin/contract --gtest_filter=*chunked*)
must_match("${contract}" "PASSED  . [1-9]")
