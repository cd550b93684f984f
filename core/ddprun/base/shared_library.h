// Loads a shared library for good and finds its one symbol.
#pragma once

#include <filesystem>
#include <string>

namespace ddprun {

/// The address of `symbol` in the library, or null if it has none. `noun`: "the plugin library",
/// for messages; `rebuild`: the hint where it does not fit. Loaded RTLD_NOW | RTLD_LOCAL and never
/// unloaded: its code may be needed until the process ends (autograd holds its functions, static
/// destructors run at exit). Throws PluginError: no file, cut short, cannot be loaded.
const void* library_symbol(const std::filesystem::path& file, const char* symbol,
                           const std::string& noun, const std::string& rebuild);

}  // namespace ddprun
