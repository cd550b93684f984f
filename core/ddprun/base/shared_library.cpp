// dlopen with messages: why a library cannot be loaded, in words.
#include "ddprun/base/shared_library.h"

#define BOOST_DLL_USE_STD_FS
#include <fmt/format.h>

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <boost/dll/shared_library.hpp>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <vector>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

namespace fs = std::filesystem;

namespace {

/// dlopen maps a file that was cut short (an interrupted copy) and crashes. The file's table of
/// sections, which stands at its end, says how long the file should be.
void check_complete(const fs::path& file, const std::string& noun) {
  Elf64_Ehdr header = {};
  std::ifstream(file, std::ios::binary).read(reinterpret_cast<char*>(&header), sizeof header);
  const bool elf64 =
      std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 && header.e_ident[EI_CLASS] == ELFCLASS64;
  if (!elf64) return;  // dlopen says it better
  const std::uintmax_t needed = std::max<std::uintmax_t>(
      sizeof header, header.e_shoff + std::uintmax_t{header.e_shnum} * header.e_shentsize);
  if (const auto size = fs::file_size(file); size < needed) {
    throw PluginError({.what = noun + " is incomplete",
                       .where = file.string(),
                       .got = fmt::format("{} bytes", size),
                       .expected = fmt::format("at least {} bytes", needed),
                       .hint = "copy or build it again"});
  }
}

/// What helps where it is no fault of the library.
std::string hint_for(const std::string& reason, const std::string& rebuild) {
  const auto says = [&reason](const char* words) { return reason.find(words) != reason.npos; };
  if (says("Too many open files")) return "`ulimit -n 4096` raises the limit";
  return says("failed to map segment") ? "memory ran out, or the file system is mounted noexec"
                                       : rebuild;
}

/// Throws std::runtime_error with the reason.
std::uint64_t hash_of(const fs::path& path) {
  const RegularFile file(path);
  Hash64 hash;
  constexpr std::int64_t kInCaches = 256 << 10;
  file.visit_pieces(0, kInCaches, [&hash](std::int64_t, std::span<const char> piece) {
    hash.add(piece.data(), piece.size());
  });
  return hash.value();
}

}  // namespace

const void* library_symbol(const fs::path& file, const char* symbol, const std::string& noun,
                           const std::string& rebuild) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) {
    throw PluginError({.what = noun + " is not a file",
                       .where = file.string(),
                       .got = error ? error.message() : "a folder or a special file",
                       .expected = "a shared library (.so)",
                       .hint = "build it, or correct the path"});
  }
  check_complete(file, noun);
  static auto& handles = *new std::vector<std::unique_ptr<boost::dll::shared_library>>;
  auto library = std::make_unique<boost::dll::shared_library>();
  const pid_t self = ::getpid();
  library->load(file, error, boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (::getpid() != self) ::_exit(0);
  if (error) {
    const char* text = dlerror();
    const std::string reason = text == nullptr ? "" : text;
    const bool lacks_symbol = reason.find("undefined symbol") != std::string::npos;
    throw PluginError(
        {.what = noun + (lacks_symbol ? " needs a symbol that this ddprun does not have"
                                      : " cannot be loaded"),
         .where = file.string(),
         .got = reason,
         .expected = lacks_symbol ? "symbols of this ddprun and its LibTorch"
                                  : "a shared library for this machine",
         .hint = hint_for(reason, rebuild)});
  }
  handles.push_back(std::move(library));
  const auto& loaded = *handles.back();
  return loaded.has(symbol) ? &loaded.get<const char>(symbol) : nullptr;
}

void run_static_destructors(const fs::path& file) {
  // Not by dlclose(): it unmaps code that threads may be in, or keeps a library of unique symbols.
  void* const handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  const link_map* map = nullptr;
  if (handle == nullptr || ::dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) return;
  using Function = void (*)();
  const Function* functions = nullptr;
  std::size_t count = 0;
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_FINI_ARRAY) {
      functions = reinterpret_cast<const Function*>(map->l_addr + entry->d_un.d_ptr);
    } else if (entry->d_tag == DT_FINI_ARRAYSZ) {
      count = entry->d_un.d_val / sizeof(Function);
    }
  }
  while (count > 0) functions[--count]();
}

const std::string& library_content(const fs::path& file) {
  static std::map<fs::path, std::string> contents;
  const auto [found, is_new] = contents.try_emplace(file);
  if (is_new) {
    try {
      found->second = fmt::format("{:016x}", hash_of(file));
    } catch (const std::runtime_error& error) {
      found->second = error.what();
    }
  }
  return found->second;
}

}  // namespace ddprun
