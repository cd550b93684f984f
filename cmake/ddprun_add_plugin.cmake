# ddprun_add_plugin(<strategy|precision|attention> <name> <source>...): one shared library, <kind>_<name>.so.
# In the tree it goes to lib/ddprun/plugins of the build folder, where the ddprun beside it looks, and is installed; out of it, to
# the project's build folder.
function(ddprun_add_plugin kind name)
  if(NOT kind MATCHES "^(strategy|precision|attention)$")
    message(FATAL_ERROR "ddprun_add_plugin: kind '${kind}' is none of strategy, precision, attention")
  endif()
  set(target ${kind}_${name})
  add_library(${target} MODULE ${ARGN})
  target_link_libraries(${target} PRIVATE ddprun::core)
  target_compile_features(${target} PRIVATE cxx_std_20)
  # Unique symbols would bind across RTLD_LOCAL libraries.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fno-gnu-unique>)
  set_target_properties(${target} PROPERTIES PREFIX "")
  if(TARGET ddprun_core)  # in ddprun's own tree
    target_link_libraries(${target} PRIVATE ddprun_warnings)
    set_target_properties(${target} PROPERTIES
      LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib/ddprun/plugins
      INSTALL_RPATH $ORIGIN/../..)
    install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/ddprun/plugins)
  elseif(DDPRUN_BUILD_TYPE MATCHES "^(Debug)?$")
    # The handshake compares NDEBUG. Following ddprun here leaves the plugin's author free to choose any build type.
    target_compile_options(${target} PRIVATE -UNDEBUG)
  else()
    target_compile_options(${target} PRIVATE -DNDEBUG)
    # A plugin that is not optimized, beside built-in ones that are, would be compared unfairly.
    target_compile_options(${target} PRIVATE $<$<CONFIG:>:-O3>)
  endif()
endfunction()
