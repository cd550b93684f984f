// Attention implementations in turns, forward and backward, causal, on the same threads: medians in
// milliseconds, and flash's time over the others'.
//     build/release/bin/attention_benchmark [model|long|HEADSxTIMExHEAD_DIM] [fp32|bf16] [threads]
//     [seconds a row] [longest]
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/base/clock.h"
#include "ddprun/config/registry.h"
#include "support/experiments.h"

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

Attention& implementation(const std::string& name) {
  static const auto* const registry = new PluginRegistry({test::plugin_folder()});
  static std::map<std::string, std::shared_ptr<Attention>> loaded;
  auto& attention = loaded[name];
  if (!attention) {
    PluginChoice choice;
    choice.kind = PluginKind::attention;
    choice.name = name;
    attention = make_attention(*registry, choice);
  }
  return *attention;
}

/// Inputs laid out as projections do, and the gradient of the output.
struct Call {
  Call(const Shape& shape, at::ScalarType dtype) {
    for (at::Tensor* tensor : {&q, &k, &v, &dy}) {
      *tensor = at::randn({shape.batch, shape.time, shape.heads, shape.head_dim})
                    .to(dtype)
                    .transpose(1, 2);
    }
    for (at::Tensor* tensor : {&q, &k, &v}) tensor->requires_grad_();
  }

  double milliseconds(Attention& attention) {
    for (at::Tensor* tensor : {&q, &k, &v}) tensor->mutable_grad().reset();
    const std::int64_t begin = now_ns();
    attention.forward(q, k, v, {.causal = true}).backward(dy);
    return to_ms(now_ns() - begin);
  }

  at::Tensor q, k, v, dy;
};

double median(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Prints a row, and returns flash's time over that of sdpa.
double measure(const Shape& shape, at::ScalarType dtype, const char* dtype_name, double seconds) {
  constexpr int kLeast = 3;
  constexpr int kMost = 25;
  std::vector<std::string> names = {"flash", "sdpa"};
  if (fits_eager(shape)) names.emplace_back("eager");
  Call call(shape, dtype);
  std::map<std::string, std::vector<double>> times;
  const std::int64_t begin = now_ns();
  int rounds = -1;  // the first is a warm-up
  while (rounds < kLeast || (rounds < kMost && to_ms(now_ns() - begin) < 1e3 * seconds)) {
    for (const auto& name : names) {
      const double time = call.milliseconds(implementation(name));
      if (rounds >= 0) times[name].push_back(time);
    }
    ++rounds;
  }
  const double flash = median(times["flash"]);
  const double sdpa = median(times["sdpa"]);
  std::printf("| %s | %ld | %ld | %ld | %ld | %.2f | %.2f |", dtype_name, shape.batch, shape.heads,
              shape.time, shape.head_dim, flash, sdpa);
  if (names.size() > 2) {
    const double eager = median(times["eager"]);
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
  std::vector<double> ratios;
  for (const Shape& shape : all) {
    ratios.push_back(
        measure(shape, dtype == "bf16" ? at::kBFloat16 : at::kFloat, dtype.c_str(), seconds));
  }
  const double worst = *std::max_element(ratios.begin(), ratios.end());
  std::printf("\nflash / sdpa: median of the shapes %.2f, largest %.2f; %d threads\n",
              median(ratios), worst, at::get_num_threads());
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
