// ddprun, the command.
#include <fcntl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "runner/command/command_line.h"
#include "runner/command/request.h"

int main(int argc, char** argv) {
  // A standard stream that the caller closed would be the number of the next file that is opened.
  int fd = 0;
  while (fd >= 0 && fd <= 2) fd = open("/dev/null", O_RDWR);
  close(fd);
  // A reader that has left and a limit on files are failures of a write, which is said where it
  // happens. Their signals would end this process, and rows that are done with it.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  const int status = ddprun::run_command_line(argc, argv);
  std::cout.flush();
  if (std::cout) return status;
  std::cerr << "error: the output could not be written\n";
  return status == ddprun::kExitDone ? ddprun::kExitFailed : status;
}
