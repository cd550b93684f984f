# The correctness study of docs/using_the_library.md: install ddprun, build the study against it, run it on two ranks. Every strategy
# that promises the mean passes, and one that does not is told from them.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DLAUNCHER=... -P correctness_study_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)

file(COPY ${WORK}/prefix/share/ddprun/examples/ DESTINATION ${WORK})
must_build(${WORK}/correctness_study)
set(study ${WORK}/correctness_study/build/correctness_study)

foreach(strategy naive flat overlap bucketed zero1 fsdp)
  on_two_ranks(status text ${study} ${strategy})
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "${strategy}: exit status ${status}")
  endif()
  foreach(layer 0 2 4)
    must_match("${text}" "net.${layer}.weight[^\n]*✓\nnet.${layer}.bias[^\n]*✓\n")
  endforeach()
  must_match("${text}" "epoch 3: loss [0-9.]+ data parallel, [0-9.]+ in one process\n$")
endforeach()

# It averages parameters, and seldom.
on_two_ranks(status text ${study} local_sgd)
if(NOT status EQUAL 1)
  message(FATAL_ERROR "local_sgd: exit status ${status}")
endif()
must_match("${text}" "net.0.weight[^\n]*✗\n")
