# The path of docs/using_the_library.md: install ddprun, build a program of one's own against it, train on two ranks in every
# precision that runs here. Each precision must leave its trace: other parameters than those of the others.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DLAUNCHER=... -P own_program_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)

file(COPY ${WORK}/prefix/share/ddprun/examples/own_program DESTINATION ${WORK})
set(example ${WORK}/own_program)

# Beside the program a file that includes every header which users may include, and nothing else.
file(STRINGS ${SOURCE}/core/public_headers.txt headers REGEX "^ddprun/")
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
file(WRITE ${example}/headers.cpp ${headers})
file(APPEND ${example}/CMakeLists.txt "target_sources(own_program PRIVATE headers.cpp)\n")
must_build(${example})

must(list ${WORK}/prefix/bin/ddprun list)
string(REGEX MATCHALL "precision +[a-z0-9_]+" precisions "${list}")
set(traces "")
set(refused "")
foreach(precision ${precisions})
  string(REGEX REPLACE "precision +" "" precision "${precision}")
  on_two_ranks(status text ${example}/build/own_program bucketed ${precision})
  if(NOT status EQUAL 0)
    must_match("${text}" "precision ${precision} cannot run in this experiment")
    list(APPEND refused ${precision})
    continue()
  endif()
  must_match("${text}" "integer_gradients passed" "parameters_equal passed" "parameters [0-9a-f]+")
  string(REGEX MATCH "parameters [0-9a-f]+" trace "${text}")
  if(trace IN_LIST traces)
    message(FATAL_ERROR "${precision} trains as another precision does: ${trace}")
  endif()
  list(APPEND traces ${trace})
endforeach()
list(LENGTH traces count)
if(count LESS 5 OR NOT refused STREQUAL "tf32")
  message(FATAL_ERROR "trained in ${count} precisions; refused: ${refused}")
endif()

# Whoever owns the parameters.
foreach(strategy zero1 zero2 fsdp local_sgd)
  on_two_ranks(status text ${example}/build/own_program ${strategy} fp32)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${strategy}: ${text}")
  endif()
  must_match("${text}" "parameters [0-9a-f]+")
endforeach()
