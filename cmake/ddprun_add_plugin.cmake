# ddprun_add_plugin(<strategy|precision|attention> <name> <source>...): one shared library, <kind>_<name>.so.
function(ddprun_add_plugin kind name)
  if(NOT kind MATCHES "^(strategy|precision|attention)$")
    message(FATAL_ERROR "ddprun_add_plugin: kind '${kind}' is none of strategy, precision, attention")
  endif()
  set(target ${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  set_target_properties(${target} PROPERTIES PREFIX "")
  target_link_libraries(${target} PRIVATE ddprun::core)
  target_compile_features(${target} PRIVATE cxx_std_20)
  # Unique symbols would bind across RTLD_LOCAL libraries.
  target_compile_options(${target} PRIVATE -fno-gnu-unique)
  if(DEFINED DDPRUN_BUILD_TYPE)  # out of ddprun's own tree
    # The handshake compares NDEBUG; a plugin that is not optimized would be compared unfairly.
    if(DDPRUN_BUILD_TYPE MATCHES "^(Debug)?$")
      target_compile_options(${target} PRIVATE -UNDEBUG)
    else()
      target_compile_options(${target} PRIVATE -DNDEBUG $<$<CONFIG:>:-O3>)
    endif()
  endif()
endfunction()
