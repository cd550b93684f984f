// Text as bytes: reads files and folders, and tells text from other files.
#include "ddprun/data/token_sequence.h"

#include <boost/locale/utf.hpp>
#include <filesystem>
#include <new>
#include <stdexcept>

#include "ddprun/base/error.h"
#include "ddprun/base/hash.h"
#include "ddprun/base/regular_file.h"

namespace ddprun {

namespace {

namespace fs = std::filesystem;

ConfigError unreadable_text(const std::string& path, const std::string& reason) {
  return ConfigError({.what = "the text cannot be read",
                      .where = path,
                      .got = reason,
                      .expected = "a UTF-8 text file, or a folder of such files",
                      .hint = "correct data.path, or leave the file out"});
}

std::string read_file(const std::string& path) {
  try {
    return read_whole(path);
  } catch (const std::runtime_error& error) {
    throw unreadable_text(path, error.what());
  }
}

}  // namespace

std::size_t valid_utf8_prefix(const std::string& text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  const char* at = begin;
  while (at != end) {
    const char* const sequence = at;
    if (!boost::locale::utf::is_valid_codepoint(
            boost::locale::utf::utf_traits<char>::decode(at, end))) {
      return sequence - begin;
    }
  }
  return text.size();
}

TextCorpus::TextCorpus(const std::vector<std::string>& paths, std::int64_t document_end) {
  for (const std::string& path : paths) {
    const std::int64_t before = size();
    try {
      if (!fs::exists(path)) throw unreadable_text(path, "no such file or folder");
      fs::is_directory(path) ? add_folder(path) : add_file(path);
    } catch (const fs::filesystem_error& error) {
      throw unreadable_text(error.path1().string(), error.code().message());
    } catch (const std::bad_alloc&) {
      throw unreadable_text(path, "memory cannot hold all texts up to this one");
    }
    if (size() == before)
      throw unreadable_text(path, fs::is_directory(path) ? "no text in it" : "an empty file");
  }
  if (document_end < 0) return;
  auto ends = std::make_shared<std::vector<std::int64_t>>();
  const auto end = static_cast<char>(document_end);
  for (std::size_t at = bytes_.find(end); at != std::string::npos; at = bytes_.find(end, at + 1)) {
    ends->push_back(static_cast<std::int64_t>(at));
  }
  ends_of_documents_ = std::move(ends);
}

void TextCorpus::add_file(const std::string& path) {
  const std::string text = read_file(path);
  const std::size_t valid = valid_utf8_prefix(text);
  if (valid != text.size())
    throw unreadable_text(path, "no UTF-8 at byte offset " + std::to_string(valid));
  add(path, text);
}

void TextCorpus::add(const std::string& path, const std::string& text) {
  bytes_ += text;
  paths_.push_back(path);
  ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
}

void TextCorpus::add_folder(const std::string& path) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path)) {
    if (entry.is_symlink()) {
      ++skipped_links_;
    } else if (entry.is_regular_file()) {
      found.push_back(entry.path().string());
    }
  }
  std::ranges::sort(found);
  for (const std::string& file : found) {
    const std::string text = read_file(file);
    if (text.find('\0') != std::string::npos || valid_utf8_prefix(text) != text.size()) {
      ++skipped_binaries_;
      continue;
    }
    add(file, text);
  }
}

std::string TextCorpus::skipped() const {
  std::string text;
  const auto add = [&text](std::int64_t count, const std::string& one, const std::string& many) {
    if (count == 0) return;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + (count == 1 ? one : many);
  };
  add(skipped_links_, "symbolic link", "symbolic links");
  add(skipped_binaries_, "file that is not UTF-8 text", "files that are not UTF-8 text");
  return text;
}

std::uint64_t TextCorpus::content_hash() const { return hash64(bytes_); }

void TextCorpus::copy(std::int64_t begin, std::int64_t count, std::int64_t* out) const {
  const auto* const bytes = reinterpret_cast<const unsigned char*>(bytes_.data()) + begin;
  std::copy(bytes, bytes + count, out);
}

}  // namespace ddprun
