// Files that are read, and what is refused because reading it might not end.
#include "ddprun/base/regular_file.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <stdexcept>

#include "ddprun/base/descriptor.h"
#include "support/ddprun_command.h"

namespace ddprun {
namespace {

namespace fs = std::filesystem;

class RegularFileTest : public testing::Test {
 protected:
  fs::path path(const std::string& name) const { return folder_.path() / name; }

  static std::string reason(const fs::path& path) {
    return test::error_of<std::runtime_error>([&] { read_whole(path); });
  }

  test::TemporaryFolder folder_;
};

TEST_F(RegularFileTest, IsReadWholeAndInPieces) {
  folder_.write("a", "0123456789");
  EXPECT_EQ(read_whole(path("a")), "0123456789");
  const RegularFile file(path("a"));
  char piece[8] = {};
  EXPECT_EQ(file.read(4, piece, 3), 3);
  EXPECT_STREQ(piece, "456");
  EXPECT_EQ(file.read(8, piece, 8), 2);
  EXPECT_EQ(file.read(80, piece, 8), 0);
  EXPECT_EQ(file.change(), "");
}

TEST_F(RegularFileTest, IsVisitedInPiecesOfWhichTheLastIsShorter) {
  folder_.write("a", "0123456789");
  const RegularFile file(path("a"));
  std::string pieces;
  const auto visit = [&pieces](std::int64_t offset, std::span<const char> piece) {
    pieces += std::to_string(offset) + ":" + std::string(piece.begin(), piece.end()) + " ";
  };
  file.visit_pieces(3, 4, visit);
  EXPECT_EQ(pieces, "3:3456 7:789 ");
  fs::resize_file(path("a"), 5);
  EXPECT_THROW(file.visit_pieces(0, 4, visit), std::runtime_error);
}

TEST_F(RegularFileTest, WhatIsNoFileIsRefusedAtOnce) {
  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  const Descriptor socket(::socket(AF_UNIX, SOCK_STREAM, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path("socket").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  fs::create_symlink(path("self"), path("self"));
  EXPECT_EQ(reason(path("fifo")), "a named pipe, not a file");
  EXPECT_EQ(reason(path("socket")), "a socket, not a file");
  EXPECT_EQ(reason("/dev/zero"), "a device, not a file");
  EXPECT_EQ(reason(folder_.path()), "a folder");
  EXPECT_THAT(reason(path("self")), HasSubstr("symbolic links"));
  EXPECT_EQ(reason(path("absent")), "No such file or directory");
}

TEST_F(RegularFileTest, AFileLargerThanMemoryIsRefusedAtOnce) {
  folder_.write("sparse", "x");
  fs::resize_file(path("sparse"), std::uintmax_t{1} << 42);
  EXPECT_EQ(reason(path("sparse")), "4,398,046,511,104 bytes, more than memory has to give");
}

TEST_F(RegularFileTest, AChangeShows) {
  folder_.write("a", "0123456789");
  const RegularFile file(path("a"));
  fs::resize_file(path("a"), 5);
  EXPECT_EQ(file.change(), "5 bytes, and 10 bytes at first");
  fs::resize_file(path("a"), 10);
  fs::last_write_time(path("a"), fs::file_time_type::clock::now() + std::chrono::seconds(9));
  EXPECT_EQ(file.change(), "it was written to");
}

}  // namespace
}  // namespace ddprun
