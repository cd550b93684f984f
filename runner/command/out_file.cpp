// A file that cannot be written is an error of the command.
#include "runner/command/out_file.h"

#include <cstring>
#include <filesystem>

#include "ddprun/base/error.h"

namespace ddprun {

void write_out(const std::string& out, const std::function<void(const TextSink&)>& tell) {
  if (const int error = write_durably(std::filesystem::absolute(out), tell); error != 0) {
    throw Error({.what = "cannot write a file",
                 .where = out,
                 .got = std::strerror(error),
                 .expected = "a file in a folder that is there, and room on its disk",
                 .hint = "--out names it"});
  }
}

}  // namespace ddprun
