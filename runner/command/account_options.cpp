// Numbers with units.
#include "runner/command/account_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <map>

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

constexpr std::int64_t kMostRanks = 4096;  // world.size has no more

using Units = std::map<std::string, double>;

const Units& byte_units() {
  static const Units units = {{"MB", 1e6},     {"GB", 1e9},     {"TB", 1e12},
                              {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  return units;
}
const Units& rate_units() {
  static const Units units = {
      {"MB/s", 1e6}, {"GB/s", 1e9}, {"TB/s", 1e12}, {"Mbit/s", 1e6 / 8}, {"Gbit/s", 1e9 / 8}};
  return units;
}
const Units& time_units() {
  static const Units units = {{"ns", 1e-9}, {"us", 1e-6}, {"ms", 1e-3}};
  return units;
}

std::string one_of(const Units& units) {
  return fmt::format("a number and one of {}", fmt::join(std::views::keys(units), ", "));
}

/// "80GB" in bytes; empty: it is not a positive and finite number with one of these units.
std::optional<double> with_unit(const std::string& text, const Units& units) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const auto unit = units.find(std::string(end, text.data() + text.size()));
  if (error != std::errc() || unit == units.end()) return {};
  number *= unit->second;
  return number > 0 && std::isfinite(number) ? std::optional(number) : std::nullopt;
}

std::optional<std::int64_t> ranks_of(const std::string& text) {
  const auto ranks = number_from<std::int64_t>(text);
  return ranks && *ranks >= 1 && *ranks <= kMostRanks ? ranks : std::nullopt;
}

std::vector<std::int64_t> read_ranks(const std::string& text) {
  std::vector<std::int64_t> out;
  for (const std::string& part : split_at(text, ',')) {
    const auto ranks = ranks_of(part);
    if (!ranks) {
      throw ConfigError({.what = "--ranks has something that is no number of ranks",
                         .where = "the command line",
                         .got = part,
                         .expected = fmt::format("numbers from 1 to {}", kMostRanks),
                         .hint = "separate them by commas: --ranks 1,2,8"});
    }
    out.push_back(*ranks);
  }
  return out;
}

/// A positive number with one of these units. `what` and `hint`: of the error.
double read_one(const std::string& text, const Units& units, const char* what,
                const std::string& expected, const char* hint) {
  if (const auto number = with_unit(text, units)) return *number;
  throw ConfigError(
      {.what = what, .where = "the command line", .got = text, .expected = expected, .hint = hint});
}

Link read_link(const char* option, const std::string& text) {
  const std::vector<std::string> parts = split_at(text, ',');
  if (parts.size() == 2) {
    const auto rate = with_unit(parts[0], rate_units());
    const auto latency = with_unit(parts[1], time_units());
    if (rate && latency) return {*rate, *latency};
  }
  throw ConfigError(
      {.what = fmt::format("{} needs a bandwidth and a latency, each with its unit", option),
       .where = "the command line",
       .got = text,
       .expected = one_of(rate_units()) + "; then " + one_of(time_units()),
       .hint = fmt::format("separate them by a comma: {} 200GB/s,5us", option)});
}

/// Options that mean nothing without another one.
void check_needs(const AccountWords& words) {
  const auto needs = [](const char* option, const std::string& text, const char* other,
                        const std::string& needed) {
    if (text.empty() || !needed.empty()) return;
    throw ConfigError({.what = fmt::format("{} has no effect without {}", option, other),
                       .where = "the command line",
                       .got = text,
                       .expected = other,
                       .hint = "times are predicted where the link between ranks is known, and "
                               "rates are given together or measured together"});
  };
  needs("--tflops", words.tflops, "--link", words.link);
  needs("--memory-rate", words.memory_rate, "--tflops", words.tflops);
  needs("--host-link", words.host_link, "--link", words.link);
  needs("--host-link", words.host_link, "--hosts", words.hosts);
}

void read_hosts(const std::string& text, AccountOptions& options) {
  const std::vector<std::string> parts = split_at(text, 'x');
  const auto hosts = parts.size() == 2 ? ranks_of(parts[0]) : std::nullopt;
  const auto each = parts.size() == 2 ? ranks_of(parts[1]) : std::nullopt;
  const std::int64_t all = hosts && each ? *hosts * *each : 0;
  const bool fits = options.ranks.empty() || options.ranks == std::vector{all};
  if (all >= 1 && all <= kMostRanks && fits) {
    options.ranks = {all};
    options.ranks_per_host = *each;
    return;
  }
  throw ConfigError(
      {.what = "--hosts needs hosts x ranks of each, which make up --ranks",
       .where = "the command line",
       .got = fmt::format("{}; --ranks {}", text, fmt::join(options.ranks, ",")),
       .expected = fmt::format("two numbers whose product is the ranks, at most {}", kMostRanks),
       .hint = "--hosts 8x8 is 64 ranks: leave --ranks out"});
}

}  // namespace

AccountOptions read_account_options(const AccountWords& words) {
  AccountOptions options;
  if (!words.ranks.empty()) options.ranks = read_ranks(words.ranks);
  if (!words.memory.empty()) {
    options.memory_bytes =
        read_one(words.memory, byte_units(), "--memory needs a size with its unit",
                 one_of(byte_units()), "GB is 1e9 bytes, GiB 2^30: --memory 80GB");
  }
  check_needs(words);
  if (!words.link.empty()) {
    const Link within = read_link("--link", words.link);
    options.links = {within,
                     words.host_link.empty() ? within : read_link("--host-link", words.host_link)};
  }
  if (!words.tflops.empty()) {
    options.operations_per_s =
        read_one(words.tflops, {{"", 1e12}}, "--tflops needs a positive number",
                 "1e12 operations a second, of a rank's matrix products",
                 "--tflops 400, which is about what an H100 reaches in bfloat16");
  }
  if (!words.memory_rate.empty()) {
    options.bytes_per_s =
        read_one(words.memory_rate, rate_units(), "--memory-rate needs a bandwidth with its unit",
                 one_of(rate_units()), "read and written, of a rank's memory: --memory-rate 3TB/s");
  }
  if (!words.hosts.empty()) read_hosts(words.hosts, options);
  return options;
}

}  // namespace ddprun
