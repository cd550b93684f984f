// Edits of a document before it is read: values at dotted paths, `--set` overrides, and sweeps.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "ddprun/config/config_node.h"

namespace ddprun {

class Options;

inline constexpr const char* kSweepKey = "sweep";
inline constexpr const char* kSweepHelp = "one experiment for each combination of values";

/// Puts `value` at a dotted path ("model.layers", "strategy.bucket_mb"). It creates mappings on the
/// way. A scalar on the way (`strategy: mine`) becomes {name: mine}. Throws ConfigError if the path
/// is malformed or runs through a list.
void set_path(ConfigNode& root, const std::string& path, ConfigNode value);

/// The value at such a path; null: there is none.
const ConfigNode* at_path(const ConfigNode& root, const std::string& path);

/// Applies one `--set key.path=value`. The value is parsed as YAML, so lists and mappings work.
/// What follows `sweep.` is one key of the sweep: "sweep.world.size=[1, 2]".
void apply_override(ConfigNode& root, const std::string& assignment);

/// The swept keys and their values at one point, in the order of the sweep.
using SweptValues = std::vector<std::pair<std::string, std::string>>;

/// The swept keys, in the order of the sweep. `points`: all of it, one at least.
std::vector<std::string> swept_keys(const std::vector<SweptValues>& points);

/// The different values of a swept key, in the order of the sweep; empty: it is not swept.
std::vector<std::string> values_of(const std::string& key, const std::vector<SweptValues>& points);

/// The swept key of that name, or else of that last part. Throws ConfigError, about what stands at
/// `where`, if no key has it, or several have that part.
std::string swept_key(const std::string& name, const std::vector<SweptValues>& points,
                      const std::string& where);

/// One point of a sweep: the document without `sweep:`, and the swept values, also as one text
/// ("strategy=mine, world.size=2").
struct SweepPoint {
  ConfigNode document;
  std::string label;
  SweptValues values = {};
};

/// As labels have it: "mine", "mine(bucket_mb=5)" of a mapping with a name, else on one line.
std::string label_of(const ConfigNode& value);

/// The integers of a range, and the limits that they keep.
struct SweepRange {
  std::int64_t from = 1, to = 1;
  double factor = 2;
};
void declare_options(Options& options, SweepRange& range);

/// Replaces each range under `sweep:`, {from: 1000, to: 1e6, factor: 10}, by the list of its
/// values, 1000, 10000, 100000 and 1000000: each is the one before times `factor`, rounded to an
/// integer, as long as it is not above `to`. A mapping without `from` is left alone. Throws
/// ConfigError if a range has no value, or no end.
void expand_ranges(ConfigNode& document);

/// Calls `use` with each point of `sweep: {path: [values...], ...}`, a cross product; the last key
/// varies fastest. A point is made when its turn comes, so that what `use` throws ends it early.
/// Values may be scalars, lists or mappings (whole nodes). A document without `sweep:`, or with an
/// empty one, has one point: itself, with an empty label. Throws ConfigError if `sweep:` is not a
/// mapping of non-empty lists, or if it would hide an override or an earlier key.
void for_each_point(const ConfigNode& document, const std::function<void(SweepPoint)>& use);

}  // namespace ddprun
