// Attention implementations in turns, forward and backward, causal, on the same threads: medians in
// milliseconds, and flash's time over the others'.
//     build/release/bin/attention_benchmark [model|long|HEADSxTIMExHEAD_DIM] [fp32|bf16] [threads]
//     [seconds a row] [longest]
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/config/registry.h"
#include "ddprun/measure/statistics.h"
#include "ddprun/proof/attention/attention_trial.h"
#include "support/experiments.h"
#include "support/plugin_choice.h"

namespace ddprun {
namespace {

struct Shape {
  std::int64_t batch, heads, time, head_dim;
};

// Of the models that the configurations train.
constexpr Shape kModelShapes[] = {{4, 4, 128, 64},  {4, 8, 128, 32}, {8, 8, 128, 64},
                                  {8, 12, 256, 64}, {2, 8, 256, 64}, {4, 12, 512, 32},
                                  {1, 8, 512, 64},  {8, 12, 512, 64}};

std::vector<Shape> long_shapes(std::int64_t longest) {
  std::vector<Shape> shapes;
  for (const std::int64_t head_dim : {64, 128}) {
    for (const std::int64_t heads : {1, 8}) {
      for (std::int64_t time = 1024; time <= longest; time *= 2) {
        shapes.push_back({1, heads, time, head_dim});
      }
    }
  }
  return shapes;
}

std::vector<Shape> shapes_of(const std::string& name, std::int64_t longest) {
  if (name == "model") return {std::begin(kModelShapes), std::end(kModelShapes)};
  if (name == "long") return long_shapes(longest);
  Shape one = {1, 0, 0, 0};
  const int read =
      std::sscanf(name.c_str(), "%ldx%ldx%ld", &one.heads, &one.time, &one.head_dim);  // NOLINT
  TORCH_CHECK(read == 3, "no such shapes: ", name);
  return {one};
}

/// Whether eager's scores, of which some copies are alive at a time, are small enough to try.
bool fits_eager(const Shape& shape) {
  return shape.batch * shape.heads * shape.time * shape.time <= std::int64_t{1} << 25;
}

/// Calls of one of the plugins, and how long they took.
class Implementation {
 public:
  Implementation(const PluginRegistry& registry, const std::string& name,
                 const AttentionConfig& config)
      : attention_(make_attention(registry,
                                  test::choice_of(PluginKind::attention, "{name: " + name + "}"))),
        trial_(config, *attention_, cpu_device(), AttentionTrial::kSeed, TrialLayout::by_token) {}

  void call(bool warmup) {
    TrialMarks marks;
    trial_.run(marks);
    if (!warmup) times_.push_back(to_ms(marks.end - marks.begin));
  }
  double median() const { return summarize(times_).median; }

 private:
  std::shared_ptr<Attention> attention_;
  AttentionTrial trial_;
  std::vector<double> times_;
};

/// Prints a row, and returns flash's time over that of sdpa.
double measure(const PluginRegistry& registry, const Shape& shape, const std::string& dtype,
               double seconds) {
  constexpr int kLeast = 3;
  constexpr int kMost = 25;
  const AttentionConfig config{
      .batch = shape.batch,
      .heads = shape.heads,
      .length = shape.time,
      .head_dim = shape.head_dim,
      .dtype = dtype == "bf16" ? AttentionType::bfloat16 : AttentionType::float32};
  std::vector<Implementation> all;
  for (const char* name : {"flash", "sdpa"}) all.emplace_back(registry, name, config);
  if (fits_eager(shape)) all.emplace_back(registry, "eager", config);
  const std::int64_t begin = now_ns();
  int rounds = -1;  // the first is a warm-up
  while (rounds < kLeast || (rounds < kMost && to_ms(now_ns() - begin) < 1e3 * seconds)) {
    for (Implementation& each : all) each.call(/*warmup=*/rounds < 0);
    ++rounds;
  }
  const double flash = all[0].median();
  const double sdpa = all[1].median();
  std::printf("| %s | %ld | %ld | %ld | %ld | %.2f | %.2f |", dtype.c_str(), shape.batch,
              shape.heads, shape.time, shape.head_dim, flash, sdpa);
  if (all.size() > 2) {
    const double eager = all[2].median();
    std::printf(" %.2f | %.2f | %.2f | %d |\n", eager, flash / sdpa, flash / eager, rounds);
  } else {
    std::printf(" - | %.2f | - | %d |\n", flash / sdpa, rounds);
  }
  std::fflush(stdout);
  return flash / sdpa;
}

int run(const std::string& shapes, const std::string& dtype, double seconds, std::int64_t longest) {
  const std::vector<Shape> all = shapes_of(shapes, longest);
  std::printf(
      "| dtype | batch | heads | time | head_dim | flash | sdpa | eager | flash / sdpa | flash / "
      "eager | n |\n|---|---|---|---|---|---|---|---|---|---|---|\n");
  const PluginRegistry registry({test::plugin_folder()});
  std::vector<double> ratios;
  for (const Shape& shape : all) ratios.push_back(measure(registry, shape, dtype, seconds));
  const Summary summary = summarize(ratios);
  std::printf("\nflash / sdpa: median of the shapes %.2f, largest %.2f; %d threads\n",
              summary.median, summary.max, at::get_num_threads());
  return 0;
}

}  // namespace
}  // namespace ddprun

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const auto argument = [&](std::size_t i, const char* otherwise) {
    return i < arguments.size() ? arguments[i] : otherwise;
  };
  const std::string threads = argument(2, "0");
  if (threads != "0") at::set_num_threads(std::atoi(threads.c_str()));
  return ddprun::run(argument(0, "model"), argument(1, "fp32"),
                     std::atof(argument(3, "10").c_str()),
                     std::atoll(argument(4, "16384").c_str()));
}
