// Open MPI's side of the all-reduce of `make bench` and bench_collectives.py: MPI_Allreduce in
// place, sum of float32. One JSON line a size. Built where MPI is found (Debian: libopenmpi-dev
// openmpi-bin).
//     mpirun -n 2 --bind-to core build/release/bin/open_mpi_all_reduce [BYTES...]
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

void run_size(long bytes, int rank) {
  const long count = bytes / static_cast<long>(sizeof(float));
  const long rounds = std::clamp(2'000'000'000 / bytes, 7L, 1000L);
  std::vector<float> data(static_cast<std::size_t>(count), 1.0F);
  std::vector<double> times;
  for (long round = -3; round < rounds; ++round) {  // the first ones are a warm-up
    std::fill(data.begin(), data.end(), 1.0F);
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    double mine = (MPI_Wtime() - begin) * 1e3;
    double slowest = 0;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) times.push_back(slowest);
  }
  if (rank != 0) return;
  std::sort(times.begin(), times.end());
  std::printf(
      "{\"benchmark\":\"all_reduce\",\"bytes\":%ld,\"sides\":{\"open_mpi\":{"
      "\"median_ms\":%.4f,\"min_ms\":%.4f,\"max_ms\":%.4f}}}\n",
      count * 4, times[times.size() / 2], times.front(), times.back());
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::vector<long> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::atol(argv[i]));
  if (sizes.empty()) sizes = {1'000'000, 10'000'000, 100'000'000, 1'024'000'000};
  for (const long size : sizes) run_size(size, rank);
  MPI_Finalize();
  return 0;
}
