# libsodium, which brings no CMake file, as target `sodium`. What is linked with it is loaded by its soname.
find_path(SODIUM_INCLUDE_DIR sodium.h REQUIRED)
find_library(SODIUM_LIBRARY sodium REQUIRED)
file(REAL_PATH ${SODIUM_LIBRARY} location)
cmake_path(GET location FILENAME soname)
string(REGEX MATCH "^libsodium\\.so\\.[0-9]+" soname ${soname})
add_library(sodium SHARED IMPORTED)
set_target_properties(sodium PROPERTIES IMPORTED_LOCATION ${location} IMPORTED_SONAME ${soname}
  INTERFACE_INCLUDE_DIRECTORIES ${SODIUM_INCLUDE_DIR})
