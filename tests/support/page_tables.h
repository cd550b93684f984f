// Pages of docs whose tables are those of the code.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "support/temporary_folder.h"

namespace ddprun::test {

/// Whether pages are to become what the code says.
inline bool rewrites_pages() { return std::getenv("DDPRUN_UPDATE_DOCS") != nullptr; }

/// Compares what stands between `marker` and the next end marker with `table`, or replaces it.
inline void expect_table(const std::filesystem::path& page, const std::string& marker,
                         const std::string& table) {
  std::string text = read_file(page);
  const std::size_t at = text.find(marker);
  ASSERT_NE(at, std::string::npos) << marker;
  const std::size_t begin = at + marker.size();
  const std::size_t size = text.find("<!-- end -->", begin) - begin;
  if (rewrites_pages()) {
    std::ofstream(page) << text.replace(begin, size, table);
  } else {
    EXPECT_EQ(text.substr(begin, size), table) << "rewrite it with DDPRUN_UPDATE_DOCS=1";
  }
}

}  // namespace ddprun::test
