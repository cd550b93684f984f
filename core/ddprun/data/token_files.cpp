// Token files: maps, recognizes llm.c's header, and checks every token once.
#include "ddprun/data/token_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <span>

#include "ddprun/base/error.h"

namespace ddprun {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and read as they are");

namespace {

constexpr std::int64_t kHeaderBytes = 256 * 4;
constexpr std::int32_t kMagicUint16 = 20240520;  // llm.c's data_common.py: GPT-2's tokens
constexpr std::int32_t kMagicUint32 = 20240801;  // and Llama 3's

constexpr const char* kCheckPath = "check data.path";

using Bytes = std::shared_ptr<const std::byte>;

// The whole file, mapped for reading.
std::pair<Bytes, std::int64_t> map_file(const std::string& path) {
  const auto failed = [&path] {
    return ConfigError({.what = "the token file cannot be read",
                        .where = path,
                        .got = std::strerror(errno),
                        .expected = "a readable file",
                        .hint = kCheckPath});
  };
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) throw failed();
  const std::shared_ptr<void> closer(nullptr, [descriptor](void*) { ::close(descriptor); });
  struct stat status = {};
  if (::fstat(descriptor, &status) != 0) throw failed();
  if (S_ISDIR(status.st_mode)) {
    throw ConfigError({.what = "the token file is a folder",
                       .where = path,
                       .got = "a folder",
                       .expected = "a file",
                       .hint = "name its files in data.path"});
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) {
    throw ConfigError({.what = "the token file is empty",
                       .where = path,
                       .got = "0 bytes",
                       .expected = "tokens",
                       .hint = kCheckPath});
  }
  void* const address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (address == MAP_FAILED) throw failed();
  return {Bytes(static_cast<const std::byte*>(address),
                [size](const std::byte* bytes) { ::munmap(const_cast<std::byte*>(bytes), size); }),
          status.st_size};
}

// Bytes to skip at the front: llm.c's header if there is one.
std::int64_t header_bytes(const std::string& path, const std::byte* bytes, std::int64_t size,
                          std::int64_t token_size) {
  if (size < kHeaderBytes) return 0;
  std::int32_t header[3];  // magic, version, number of tokens
  std::memcpy(header, bytes, sizeof header);
  if (header[0] != kMagicUint16 && header[0] != kMagicUint32) return 0;
  const std::int64_t declared_size = header[0] == kMagicUint16 ? 2 : 4;
  if (declared_size != token_size) {
    throw ConfigError({.what = "the header of the token file declares another type of token",
                       .where = path,
                       .got = token_size == 2 ? "uint16" : "uint32",
                       .expected = declared_size == 2 ? "uint16" : "uint32",
                       .hint = "set data.token_type to what the file holds"});
  }
  if (kHeaderBytes + header[2] * declared_size != size) {
    throw ConfigError(
        {.what = "the token file is not as long as its header says",
         .where = path,
         .got = std::to_string(size) + " bytes",
         .expected = std::to_string(kHeaderBytes + header[2] * declared_size) + " bytes",
         .hint = "it was cut, or is still being written: make it again"});
  }
  return kHeaderBytes;
}

// First the maximum over the file, which compilers vectorize. Only if that is too large, a search.
template <class Token>
void check_tokens(const std::string& path, std::span<const Token> tokens, std::int64_t vocab_size) {
  Token largest = 0;
  for (const Token token : tokens) largest = std::max(largest, token);
  if (static_cast<std::int64_t>(largest) < vocab_size) return;
  const auto bad = std::ranges::find_if(
      tokens, [vocab_size](Token token) { return static_cast<std::int64_t>(token) >= vocab_size; });
  throw ConfigError(
      {.what = "a token is not in the vocabulary",
       .where = path,
       .got =
           "token " + std::to_string(*bad) + " at position " + std::to_string(bad - tokens.begin()),
       .expected = "tokens below model.vocab_size = " + std::to_string(vocab_size),
       .hint = "raise model.vocab_size to at least " + std::to_string(largest + std::int64_t{1}) +
               ", or check data.token_type"});
}

}  // namespace

template <class Token>
TokenFiles<Token>::TokenFiles(const std::vector<std::string>& paths, std::int64_t vocab_size) {
  constexpr auto kTokenSize = static_cast<std::int64_t>(sizeof(Token));
  for (const std::string& path : paths) {
    const auto [bytes, file_size] = map_file(path);
    if (file_size % kTokenSize != 0) {
      throw ConfigError({.what = "the token file ends within a token",
                         .where = path,
                         .got = std::to_string(file_size) + " bytes",
                         .expected = "a multiple of " + std::to_string(kTokenSize),
                         .hint = "check data.token_type"});
    }
    const std::int64_t header = header_bytes(path, bytes.get(), file_size, kTokenSize);
    const auto* const first = reinterpret_cast<const Token*>(bytes.get() + header);
    const std::int64_t count = (file_size - header) / kTokenSize;
    check_tokens<Token>(path, {first, static_cast<std::size_t>(count)}, vocab_size);
    files_.emplace_back(bytes, first);
    ends_.push_back(size() + count);
  }
}

template <class Token>
void TokenFiles<Token>::copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  auto file = std::ranges::upper_bound(ends_, begin) - ends_.begin();
  while (count > 0) {
    const std::int64_t file_begin = file == 0 ? 0 : ends_[file - 1];
    const std::int64_t here = std::min(count, ends_[file] - begin);
    const Token* const tokens = files_[file].get() + (begin - file_begin);
    out = std::copy(tokens, tokens + here, out);
    begin += here;
    count -= here;
    ++file;
  }
}

template class TokenFiles<std::uint16_t>;
template class TokenFiles<std::uint32_t>;

}  // namespace ddprun
