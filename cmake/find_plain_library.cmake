# Libraries that bring no CMake file, as targets. What is linked with one is loaded by its soname.
function(find_plain_library target header library)
  find_path(${target}_INCLUDE_DIR ${header} REQUIRED)
  find_library(${target}_LIBRARY ${library} REQUIRED)
  file(REAL_PATH ${${target}_LIBRARY} location)
  cmake_path(GET location FILENAME soname)
  string(REGEX MATCH "^lib${library}\\.so\\.[0-9]+" soname ${soname})
  add_library(${target} SHARED IMPORTED GLOBAL)
  set_target_properties(${target} PROPERTIES IMPORTED_LOCATION ${location} IMPORTED_SONAME ${soname}
    INTERFACE_INCLUDE_DIRECTORIES ${${target}_INCLUDE_DIR})
endfunction()
find_plain_library(sodium sodium.h sodium)
find_plain_library(pcre2 pcre2.h pcre2-8)
