"""Memory of a virtual machine whose host takes what is free (free page reporting)."""
import mmap

POPULATE_WRITE = 23  # MADV_POPULATE_WRITE of Linux 5.14


def warm(size):
    """Has the machine back `size` bytes of memory, which are free again."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    memory.madvise(POPULATE_WRITE)
    memory.close()
