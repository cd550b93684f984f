// Loads a shared library for good and finds its one symbol.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

/// Returns the address of `symbol` in the library, or null if the library has none. Messages call
/// the library `noun`: "the plugin library". `rebuild` is the hint of an error that a new build
/// would cure. The library is loaded RTLD_NOW | RTLD_LOCAL and never unloaded: its code may be
/// needed until the process ends, because autograd holds its functions and static destructors run
/// at exit. A copy of this process that the library makes while it is loaded ends. Throws
/// PluginError if there is no such file, if it was cut short, or if it cannot be loaded.
const void* library_symbol(const std::filesystem::path& file, const char* symbol,
                           const std::string& noun, const std::string& rebuild);

/// Runs what a library that is loaded would run at exit: its static destructors. Nobody may use the
/// library any more: this is for a process that tries it, and ends.
void run_static_destructors(const std::filesystem::path& file);

/// A text that tells the contents of libraries apart: the hash of the file, which is read once a
/// process. If it cannot be read, why. Call it on one thread.
const std::string& library_content(const std::filesystem::path& file);

}  // namespace ddprun
