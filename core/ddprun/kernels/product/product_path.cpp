// The choice of a path, once for a process.
#include "ddprun/kernels/product/product_path.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <optional>

#include "ddprun/kernels/product/product_amx.h"
#include "ddprun/kernels/product/product_avx512.h"

namespace ddprun::kernels {

namespace {

bool is_intel() {
#if defined(__x86_64__)
  return __builtin_cpu_is("intel") != 0;
#else
  return false;
#endif
}

constexpr auto kNames = choice_names(ProductPath{});

std::string forced_name() {
  const char* const name = std::getenv("DDPRUN_PRODUCTS");
  return name == nullptr ? "" : name;
}

std::optional<ProductPath> path_of(const std::string& name) {
  for (std::size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<ProductPath>(i);
  }
  return {};
}

ProductPath choose() {
  const std::string refusal = refused_products();
  TORCH_CHECK(refusal.empty(), "DDPRUN_PRODUCTS=", forced_name(), ": ", refusal);
  if (const auto forced = path_of(forced_name())) return *forced;
  for (const auto path : {ProductPath::amx, ProductPath::avx512_bf16}) {
    if (has(path)) return path;
  }
  return ProductPath::float32;
}

}  // namespace

bool has(ProductPath path) {
  if (path == ProductPath::amx) return has_amx();
  if (path == ProductPath::avx512_bf16) return has_avx512_bf16();
  return true;
}

ProductPath product_path() {
  static const ProductPath chosen = choose();
  return chosen;
}

FloatPath float_path() {
  static const FloatPath chosen =
      has_avx512_bf16() && !is_intel() && product_path() != ProductPath::library
          ? FloatPath::avx512
          : FloatPath::library;
  return chosen;
}

std::string refused_products() {
  const std::string name = forced_name();
  if (name.empty()) return {};
  const auto path = path_of(name);
  if (!path) return "no such path";
  return has(*path) ? "" : "this CPU has no such instructions";
}

}  // namespace ddprun::kernels
