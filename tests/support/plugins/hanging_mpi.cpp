// To be preloaded: a call of MPI that never returns, named by CALL.
#include <unistd.h>

extern "C" int CALL() {
  while (true) ::pause();
}
