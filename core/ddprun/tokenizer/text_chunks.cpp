// A buffer that keeps what was cut off for the next part.
#include "ddprun/tokenizer/train_tokenizer.h"

#include <algorithm>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

namespace {

constexpr std::size_t kTextBytes = 8 << 20;

/// A text in as many texts, of about one size.
std::vector<std::string_view> texts_of(std::string_view whole, std::size_t parts, const Cut& cut) {
  std::vector<std::string_view> texts;
  for (std::size_t left = parts; left > 1; --left) {
    const std::size_t at = cut(whole, whole.size() / left);
    if (at == 0) continue;
    texts.push_back(whole.substr(0, at));
    whole.remove_prefix(at);
  }
  texts.push_back(whole);
  return texts;
}

void read_chunks(const RegularFile& file, std::size_t parts, const Cut& cut,
                 const std::function<void(const std::vector<std::string_view>& texts)>& visit) {
  std::string buffer;
  for (std::int64_t at = 0; at < file.size();) {
    const std::size_t kept = buffer.size();
    const auto wanted =
        std::min<std::int64_t>(static_cast<std::int64_t>(parts * kTextBytes), file.size() - at);
    buffer.resize(kept + static_cast<std::size_t>(wanted));
    const std::int64_t got = file.read(at, buffer.data() + kept, wanted);
    if (got != wanted) throw std::runtime_error("it was cut while it was read");
    at += got;
    const std::size_t end = at == file.size() ? buffer.size() : cut(buffer, buffer.size());
    if (end == 0) continue;  // it grows
    visit(texts_of(std::string_view(buffer).substr(0, end), parts, cut));
    buffer.erase(0, end);
  }
}

}  // namespace

void for_each_chunk(const std::filesystem::path& path, std::size_t parts, const Cut& cut,
                    const std::function<void(const std::vector<std::string_view>& texts)>& visit) {
  try {
    read_chunks(RegularFile(path), parts, cut, visit);
  } catch (const Error&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw ConfigError({.what = "cannot read the text",
                       .where = path.string(),
                       .got = error.what(),
                       .expected = "a file that has an end",
                       .hint = "a folder's files are named one by one"});
  }
}

}  // namespace ddprun
