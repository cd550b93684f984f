# The path of docs/writing_a_plugin.md: install ddprun, let it write a plugin of each kind, and type what it says: build the plugin
# out of tree, try it with the contract suite, compare it with a built-in one.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DLAUNCHER=... -P out_of_tree_test.cmake
cmake_minimum_required(VERSION 3.25)
include(${CMAKE_CURRENT_LIST_DIR}/installed.cmake)

foreach(file bin/ddprun bin/ddprun-contract lib/libddprun_core.so include/ddprun/plugin/strategy.h lib/cmake/ddprun/ddprunConfig.cmake)
  if(NOT EXISTS ${WORK}/prefix/${file})
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

# Before the tests are built there is no ddprun-contract, and that stops nothing.
file(READ ${BUILD}/tests/contract/cmake_install.cmake rules)
string(REPLACE ${BUILD}/bin/ddprun-contract ${WORK}/not_built rules "${rules}")
file(WRITE ${WORK}/contract_install.cmake "${rules}")
must(said ${CMAKE_COMMAND} -DCMAKE_INSTALL_PREFIX=${WORK}/without_contract -P ${WORK}/contract_install.cmake)
must_match("${said}" "Not installed, as it was not built: bin/ddprun-contract")

# What is installed does not need the clone.
file(GLOB binaries ${WORK}/prefix/bin/* ${WORK}/prefix/lib/*.so ${WORK}/prefix/lib/ddprun/plugins/*.so)
foreach(binary ${binaries})
  must(dynamic readelf -d ${binary})
  must_match("${dynamic}" "RPATH|RUNPATH")
  if(dynamic MATCHES "${SOURCE}/")
    message(FATAL_ERROR "${binary} looks for libraries in the clone")
  endif()
endforeach()
file(STRINGS ${WORK}/prefix/lib/cmake/ddprun/ddprunConfig.cmake paths REGEX "${SOURCE}/")
if(paths)
  message(FATAL_ERROR "ddprunConfig.cmake names the clone: ${paths}")
endif()

# write_and_try(<kind> <name> <filter of the suite>): types the three lines that are printed. Sets `contract` and `table`, what the
# suite and the run print.
function(write_and_try kind name filter)
  must(said ${ddprun} new ${kind} ${name})
  string(REGEX MATCHALL "\n(cmake|ddprun)[^\n]*" lines "${said}")
  list(LENGTH lines count)
  if(NOT count EQUAL 3)
    message(FATAL_ERROR "${count} lines to type")
  endif()
  set(outputs built contract table)
  foreach(line output IN ZIP_LISTS lines outputs)
    string(STRIP "${line}" line)
    if("${output}" STREQUAL "table")  # a smaller model than the tutorial's proves as much
      string(APPEND line " --set model.vocab_size=256 --set model.layers=1 --set model.context_length=16")
    endif()
    must(${output} ${CMAKE_COMMAND} -E env PATH=${WORK}/prefix/bin:$ENV{PATH} CMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER}
      GTEST_FILTER=${filter} sh -c "${line}")
  endforeach()
  set(contract "${contract}" PARENT_SCOPE)
  set(table "${table}" PARENT_SCOPE)
endfunction()

set(ddprun ${WORK}/prefix/bin/ddprun)

# Each keeps the contract that the built-in ones keep. The names are words of the SDK: a class may be called by them, too.
write_and_try(strategy plan *)
must_match("${contract}" "plan_at_its_minimum__fp32" "AnyModule.*plan__gloo" "PASSED  . [1-9]")
if(contract MATCHES "/flat__")
  message(FATAL_ERROR "the contract was tried on other plugins too")
endif()
must_match("${table}" flat "chunks=16" "proved in 4 of 4 rows")
write_and_try(precision linear */flat_*)
must_match("${contract}" "/flat__linear__" "PASSED  . [1-9]")
must_match("${table}" fp32 "format=float16" "proved in 3 of 3 rows")
write_and_try(attention attention */flat__fp32__*)
must_match("${contract}" "__fp32__attention__" "PASSED  . [1-9]")
must_match("${table}" eager "proved in 3 of 3 rows")

set(example ${WORK}/plan)
must(list ${ddprun} list --plugin-path ${example}/build)
must_match("${list}" plan bucketed ${example}/build/strategy_plan.so ${WORK}/prefix/lib/ddprun/plugins)
must(described ${ddprun} describe plan --plugin-path ${example}/build)
must_match("${described}" chunks 1024)

# The shipped configurations are beside it, and shells find the words of what was built.
set(shells bash zsh fish)
set(files bash-completion/completions/ddprun zsh/site-functions/_ddprun fish/vendor_completions.d/ddprun.fish)
must(table ${ddprun} quickstart --output ${WORK}/results --set train.steps=1 --set "sweep.strategy=[flat]"
  --set "model={vocab_size: 256, context_length: 16, d_model: 32, d_ff: 64, layers: 1, heads: 2}")
must_match("${table}" "proved in 1 of 1 row" "results: ${WORK}/results/quickstart/")
foreach(shell file IN ZIP_LISTS shells files)
  file(READ ${WORK}/prefix/share/${file} installed)
  must(printed ${ddprun} completion ${shell})
  if(NOT installed STREQUAL printed)
    message(FATAL_ERROR "share/${file} is not what `ddprun completion ${shell}` prints")
  endif()
  must_match("${printed}" "strategy=bucketed" "train.steps=")
endforeach()

# A compiler whose plugins would not be loaded is refused before anything is compiled.
set(config ${WORK}/prefix/lib/cmake/ddprun/ddprunConfig.cmake)
file(READ ${config} text)
string(REGEX REPLACE "STREQUAL \"[^\"]+\"" "STREQUAL \"GNU 1\"" text "${text}")
file(WRITE ${config} "${text}")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${example} -B ${example}/other_compiler -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/prefix
  ERROR_VARIABLE text OUTPUT_QUIET RESULT_VARIABLE status)
if(status EQUAL 0)
  message(FATAL_ERROR "a plugin of another compiler was configured")
endif()
must_match("${text}" "plugins[ \n]+of[ \n]+that[ \n]+compiler")
