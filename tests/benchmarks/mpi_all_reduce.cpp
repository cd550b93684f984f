// Others' side of the all-reduce of `make bench` and bench_collectives.py: in place, sum of
// float32. One JSON line a size. Of MPI_Allreduce, built where MPI is found (Debian: libopenmpi-dev
// openmpi-bin); bench_collectives.py builds it with Intel MPI too and, with ONECCL, of oneCCL.
//     mpirun -n 2 --bind-to core build/release/bin/mpi_all_reduce [BYTES...]
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>
#ifdef ONECCL
#include <oneapi/ccl.hpp>
#endif

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

#ifdef ONECCL
class AllReduce {
 public:
  AllReduce(int rank, int size) : communicator_(connect(rank, size)) {}
  void operator()(std::vector<float>& data) {
    ccl::allreduce(data.data(), data.data(), data.size(), ccl::reduction::sum, communicator_)
        .wait();
  }

 private:
  static ccl::communicator connect(int rank, int size) {
    ccl::init();
    ccl::shared_ptr_class<ccl::kvs> store;
    ccl::kvs::address_type address;
    if (rank == 0) {
      store = ccl::create_main_kvs();
      address = store->get_address();
    }
    MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank != 0) store = ccl::create_kvs(address);
    return ccl::create_communicator(size, rank, store);
  }

  ccl::communicator communicator_;
};
#else
struct AllReduce {
  AllReduce(int, int) {}
  void operator()(std::vector<float>& data) {
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(data.size()), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
  }
};
#endif

void run_size(AllReduce& all_reduce, long bytes, int rank) {
  const long count = bytes / static_cast<long>(sizeof(float));
  const long rounds = std::clamp(2'000'000'000 / bytes, 7L, 1000L);
  std::vector<float> data(static_cast<std::size_t>(count), 1.0F);
  std::vector<double> times;
  for (long round = -3; round < rounds; ++round) {  // the first ones are a warm-up
    std::fill(data.begin(), data.end(), 1.0F);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    all_reduce(data);
    double mine = (MPI_Wtime() - begin) * 1e3;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) times.push_back(slowest);
  }
  if (rank != 0) return;
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"benchmark\":\"all_reduce\",\"bytes\":%ld,\"sides\":{\"mpi\":{"
      "\"median_ms\":%.4f,\"min_ms\":%.4f,\"max_ms\":%.4f}}}\n",
      count * 4, times[times.size() / 2], times.front(), times.back());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<long> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atol(argv[i]));
  if (sizes.empty()) sizes = {1'000'000, 10'000'000, 100'000'000, 1'024'000'000};
  {
    AllReduce all_reduce(rank, ranks);
    for (const long size : sizes) run_size(all_reduce, size, rank);
  }
  MPI_Finalize();
  return 0;
}
