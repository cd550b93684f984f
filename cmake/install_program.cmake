# What the command needs beside it: the configurations that come with it, examples, of whose plugins `ddprun new` makes others, and
# what shells complete its words by. The build folder has them in the same place.
set(shipped ${CMAKE_BINARY_DIR}/share/ddprun)
file(MAKE_DIRECTORY ${shipped})
foreach(folder configs docs/examples)
  cmake_path(GET folder FILENAME name)
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/ddprun/${name} USE_SOURCE_PERMISSIONS)
  file(RELATIVE_PATH there ${shipped} ${CMAKE_CURRENT_SOURCE_DIR}/${folder})
  file(CREATE_LINK ${there} ${shipped}/${name} SYMBOLIC)
endforeach()

# ddprun_complete(<shell> <file>): the program prints the script where it is installed, with the plugins that were built.
function(ddprun_complete shell file)
  cmake_path(GET file PARENT_PATH place)
  install(CODE "
    set(folder \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}\")
    file(MAKE_DIRECTORY \"\${folder}/${place}\")
    execute_process(COMMAND ${CMAKE_COMMAND} -E env --unset=DDPRUN_PLUGIN_PATH \"$<TARGET_FILE:ddprun>\" completion ${shell}
      OUTPUT_FILE \"\${folder}/${file}\" RESULT_VARIABLE failed)
    if(failed)
      file(REMOVE \"\${folder}/${file}\")
      message(STATUS \"Not installed: completion for ${shell}, as ddprun does not run here\")
    endif()")
endfunction()
ddprun_complete(bash bash-completion/completions/ddprun)
ddprun_complete(zsh zsh/site-functions/_ddprun)
ddprun_complete(fish fish/vendor_completions.d/ddprun.fish)
