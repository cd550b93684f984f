# Installs the CMake package `ddprun`, with which plugins and programs build out of tree.
include(CMakePackageConfigHelpers)
string(REGEX MATCH "^[0-9]+" compiler_number "${CMAKE_CXX_COMPILER_VERSION}")
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/ddprun)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/ddprunConfig.cmake.in ${CMAKE_BINARY_DIR}/ddprunConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT ddprunTargets NAMESPACE ddprun:: DESTINATION ${package_dir})
install(FILES
  ${CMAKE_BINARY_DIR}/ddprunConfig.cmake
  ${CMAKE_BINARY_DIR}/ddprunConfigVersion.cmake
  ${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake
  ${CMAKE_CURRENT_LIST_DIR}/ddprun_add_plugin.cmake
  DESTINATION ${package_dir})
# The text that configs/quickstart.yaml learns from, and for the reader.
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/docs DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun FILES_MATCHING PATTERN "*.md" PATTERN examples EXCLUDE)
