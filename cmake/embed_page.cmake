# One page of HTML from its parts, as a text within the program.
#
# ddprun_embed_page(<target> <page.html> STYLES <css>... LIBRARY <js>... SCRIPTS <js>...): page_template() of runner/html/html_report.h.
# The page has {{styles}}, {{library}} and {{scripts}} where the files go. This file is its own script, which runs when one of them has
# changed.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  function(ddprun_embed_page target page)
    cmake_parse_arguments(PARSE_ARGV 2 arg "" "" "STYLES;LIBRARY;SCRIPTS")
    set(source ${CMAKE_CURRENT_BINARY_DIR}/page_template.cpp)
    set(script ${CMAKE_SOURCE_DIR}/cmake/embed_page.cmake)
    add_custom_command(OUTPUT ${source}
      COMMAND ${CMAKE_COMMAND} "-DPAGE=${page}" "-DSTYLES=${arg_STYLES}" "-DLIBRARY=${arg_LIBRARY}" "-DSCRIPTS=${arg_SCRIPTS}"
        -DSOURCE=${source} -P ${script}
      DEPENDS ${page} ${arg_STYLES} ${arg_LIBRARY} ${arg_SCRIPTS} ${script} VERBATIM)
    target_sources(${target} PRIVATE ${source})
    set_source_files_properties(${source} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON)
  endfunction()
  return()
endif()

file(READ "${PAGE}" page)
foreach(part STYLES LIBRARY SCRIPTS)
  set(text "")
  foreach(file ${${part}})
    file(READ "${file}" own)
    if(own MATCHES "</script|<!--|</style|\\)ddprun\"")
      message(FATAL_ERROR "${file} has a text that would end its element of the page, or the text within the program")
    endif()
    string(APPEND text "${own}\n")
  endforeach()
  string(TOLOWER "{{${part}}}" place)
  string(REPLACE "${place}" "${text}" page "${page}")
endforeach()
file(WRITE "${SOURCE}" "// Made by cmake/embed_page.cmake.\n#include <string_view>\n\nnamespace ddprun {\n\n"
  "std::string_view page_template();\nstd::string_view page_template() { return R\"ddprun(${page})ddprun\"; }\n\n}  // namespace ddprun\n")
