// The 64-bit hash: XXH3's published values, and that pieces make no difference.
#include "ddprun/base/hash.h"

#include <gtest/gtest.h>

#include <string>

namespace ddprun {
namespace {

TEST(Hash64, IsXxh3) {
  EXPECT_EQ(hash64(""), 0x2D06800538D394C2U);
  EXPECT_EQ(Hash64().value(), 0x2D06800538D394C2U);
}

TEST(Hash64, PiecesMakeNoDifference) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * i);
  for (const std::size_t piece : {1U, 7U, 64U, 1024U, 4999U, 5000U}) {
    Hash64 hash;
    for (std::size_t begin = 0; begin < text.size(); begin += piece) {
      const std::string part = text.substr(begin, piece);
      hash.add(part.data(), part.size());
    }
    EXPECT_EQ(hash.value(), hash64(text)) << piece;
  }
  EXPECT_NE(hash64(text), hash64(text.substr(1)));
}

}  // namespace
}  // namespace ddprun
