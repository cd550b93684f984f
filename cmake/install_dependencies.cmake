# What scripts/setup.sh fetched or built lies in .deps/, below the clone. What is installed must not need the clone, so it takes this
# along, to <prefix>/lib/ddprun/deps. A LibTorch from elsewhere stays where it is. The system's libraries whose names differ from one
# release of Debian to the next come along too, so what is installed runs on all of them.
#
# Components: `ddprun` is all that is ours, with the system's libraries; `libtorch` is LibTorch for the CPU; `cuda` is libddprun_cuda,
# `cuda_libraries` what it needs. Without --component all are installed; packages.cmake says what goes into a package.
#
# Sets DDPRUN_INSTALLED_RPATH, where the installed libraries find it, and DDPRUN_INSTALLED_LIBTORCH, LibTorch's folder in the words
# of ddprunConfig.cmake.
set(deps ${CMAKE_CURRENT_SOURCE_DIR}/.deps)
set(installed_deps ${CMAKE_INSTALL_LIBDIR}/ddprun/deps)

# The folders of .deps that are given, as an RPATH of what is installed. Other folders stay as they are.
function(ddprun_installed_rpath output)
  set(folders ${ARGN})
  list(TRANSFORM folders REPLACE "^${deps}/[^/]+/" "$ORIGIN/../${installed_deps}/")
  list(REMOVE_DUPLICATES folders)
  set(${output} ${folders} PARENT_SCOPE)
endfunction()

# take_along(<component> <folder of .deps> <entry>...): on one file system as hard links, so that it takes neither time nor space.
function(take_along component site)
  list(JOIN ARGN " " entries)
  install(CODE "
    set(to \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${installed_deps}\")
    message(STATUS \"Taking along ${site}: ${entries}\")
    file(MAKE_DIRECTORY \"\${to}\")
    execute_process(COMMAND cp -alf --parents ${entries} \"\${to}\" WORKING_DIRECTORY \"${site}\" RESULT_VARIABLE failed ERROR_QUIET)
    if(failed)
      execute_process(COMMAND cp -af --parents ${entries} \"\${to}\" WORKING_DIRECTORY \"${site}\" COMMAND_ERROR_IS_FATAL ANY)
    endif()" COMPONENT ${component})
endfunction()

set(DDPRUN_INSTALLED_LIBTORCH ${LibTorch_DIR_USED})
cmake_path(IS_PREFIX deps ${LibTorch_DIR_USED} NORMALIZE libtorch_is_ours)
if(libtorch_is_ours)
  # Its libraries find each other, and the few of NVIDIA's that they need, by their places in this folder.
  cmake_path(GET LibTorch_DIR_USED PARENT_PATH site)
  set(libraries torch/lib/libtorch_cpu.so torch/lib/libc10.so torch/lib/libgomp.so.1)
  file(GLOB nvidia RELATIVE ${site} ${site}/nvidia/*/lib/libcudart.so.* ${site}/nvidia/*/lib/libcupti.so.*)
  take_along(libtorch ${site} ${libraries} torch/include ${nvidia})
  if(LibTorch_cuda_FOUND)
    set(libraries libtorch_cuda.so libtorch_cuda_linalg.so libtorch_nvshmem.so libc10_cuda.so libcaffe2_nvrtc.so libtorch.so)
    list(TRANSFORM libraries PREPEND torch/lib/)
    take_along(cuda_libraries ${site} ${libraries} nvidia)
  endif()
  set(DDPRUN_INSTALLED_LIBTORCH "\${PACKAGE_PREFIX_DIR}/${installed_deps}/torch")
endif()
ddprun_installed_rpath(DDPRUN_INSTALLED_RPATH ${LibTorch_DIR_USED}/lib)
if(LibTorch_cuda_FOUND AND IS_DIRECTORY ${deps}/cuda-${LibTorch_VERSION}/nvidia)
  take_along(cuda_libraries ${deps}/cuda-${LibTorch_VERSION} nvidia)
endif()

list(APPEND DDPRUN_INSTALLED_RPATH $ORIGIN/../${installed_deps}/lib)
if(IS_DIRECTORY ${DDPRUN_PREFIX}/lib)
  take_along(ddprun ${DDPRUN_PREFIX} lib)
endif()
# install_system_libraries(<imported target>...): after they were found.
function(install_system_libraries)
  foreach(library ${ARGN})
    get_target_property(type ${library} TYPE)
    get_target_property(imported ${library} IMPORTED)
    if(imported AND type STREQUAL "SHARED_LIBRARY")
      install(IMPORTED_RUNTIME_ARTIFACTS ${library} LIBRARY DESTINATION ${installed_deps}/lib COMPONENT ddprun)
    endif()
  endforeach()
endfunction()
