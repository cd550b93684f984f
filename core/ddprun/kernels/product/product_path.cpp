// The choice of a path, once for a process.
#include "ddprun/kernels/product/product_path.h"

#include <c10/util/Exception.h>
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <optional>

#include "ddprun/kernels/this_cpu.h"

namespace ddprun::kernels {

namespace {

bool ask_for_amx() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  constexpr unsigned kAmxBf16 = 1u << 22;
  constexpr unsigned kAmxTile = 1u << 24;
  if (!kHasAvx512Bf16 || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  if ((d & kAmxBf16) == 0 || (d & kAmxTile) == 0) return false;
  // Linux grants the 8 KiB of tile registers on demand (Documentation/arch/x86/xstate.rst).
  constexpr int kArchReqXcompPerm = 0x1023;
  constexpr int kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

constexpr auto kNames = choice_names(ProductPath{});

std::string forced_name() {
  const char* const name = std::getenv("DDPRUN_PRODUCTS");
  return name == nullptr ? "" : name;
}

std::optional<ProductPath> path_of(const std::string& name) {
  const auto at = std::find(kNames.begin(), kNames.end(), name);
  if (at == kNames.end()) return {};
  return static_cast<ProductPath>(at - kNames.begin());
}

ProductPath choose() {
  const std::string refusal = refused_products();
  TORCH_CHECK(refusal.empty(), "DDPRUN_PRODUCTS=", forced_name(), ": ", refusal);
  if (const auto forced = path_of(forced_name())) return *forced;
  if (has(ProductPath::amx)) return ProductPath::amx;
  return kFastBf16Dots ? ProductPath::avx512_bf16 : ProductPath::float32;
}

}  // namespace

bool has(ProductPath path) {
  if (path == ProductPath::amx) {
    static const bool granted = ask_for_amx();
    return granted;
  }
  return path != ProductPath::avx512_bf16 || kHasAvx512Bf16;
}

ProductPath product_path() {
  static const ProductPath chosen = choose();
  return chosen;
}

FloatPath float_path() {
  static const FloatPath chosen = kHasAvx512Bf16 && kIsAmd && product_path() != ProductPath::library
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
