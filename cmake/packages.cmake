# What CPack makes of an installation: the Debian package of `make deb`. scripts/make_wheel.py makes the wheel of the same components,
# without LibTorch, which pip brings, and with libddprun_cuda, whose libraries pip brings too.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME ddprun)
set(CPACK_PACKAGE_CONTACT "ddprun's authors")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains and benchmarks language models under data parallelism, on LibTorch ${LibTorch_VERSION}")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_SOURCE_DIR}/build/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
# LibTorch for the CPU is carried: the package installs without a network. What GPUs need is 3 GB, and is not.
set(CPACK_COMPONENTS_ALL ddprun libtorch)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
# What the libraries that it carries do not bring. A plugin must be built by the compiler of the same number as ddprun.
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE libc OUTPUT_STRIP_TRAILING_WHITESPACE)
string(REGEX MATCH "[0-9.]+$" libc "${libc}")
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libc6 (>= ${libc}), libstdc++6 (>= ${compiler_number}), libgcc-s1")
set(CPACK_DEBIAN_PACKAGE_SUGGESTS "cmake, g++-${compiler_number}, fortunes")
set(CPACK_DEBIAN_PACKAGE_SECTION science)
if(NOT libtorch_is_ours)
  set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_BINARY_DIR}/no_package.cmake)
  file(WRITE ${CPACK_PRE_BUILD_SCRIPTS} "message(FATAL_ERROR \"the Debian package carries the LibTorch that scripts/setup.sh fetched, \"
    \"and this build has another: ${LibTorch_DIR_USED}\")\n")
endif()
include(CPack)
