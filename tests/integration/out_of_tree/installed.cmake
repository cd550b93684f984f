# For the tests of an installed ddprun: runs commands, and installs ddprun from BUILD to WORK/prefix.

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

# must_build(<folder>): as a user does who names no build type, against the installed ddprun.
function(must_build folder)
  must(ignored ${CMAKE_COMMAND} -S ${folder} -B ${folder}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
    -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER})
  file(STRINGS ${folder}/build/CMakeCache.txt build_type REGEX "^CMAKE_BUILD_TYPE:")
  if(NOT build_type MATCHES "=$")
    message(FATAL_ERROR "find_package(ddprun) sets the user's ${build_type}")
  endif()
  must(ignored ${CMAKE_COMMAND} --build ${folder}/build)
endfunction()

# on_two_ranks(<variable for the exit status> <variable for the output> <command>...): with the script of example own_program.
function(on_two_ranks status output)
  string(RANDOM LENGTH 4 ALPHABET 0123456789 digits)
  execute_process(COMMAND ${CMAKE_COMMAND} -E env MASTER_PORT=2${digits} ${WORK}/own_program/two_ranks.sh ${ARGN}
    WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE result)
  message(STATUS "${ARGN}\n${text}")
  set(${status} "${result}" PARENT_SCOPE)
  set(${output} "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
must(ignored ${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
