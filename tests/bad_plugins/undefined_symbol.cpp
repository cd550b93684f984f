// A library that calls what no library defines.
extern "C" int no_library_defines_this();
extern "C" int call_it();
int call_it() { return no_library_defines_this(); }
