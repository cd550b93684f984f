// Texts of a recorded step's memory.
#include "ddprun/profile/memory_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <set>
#include <vector>

#include "ddprun/base/durable_file.h"
#include "ddprun/base/error.h"
#include "ddprun/base/json.h"
#include "ddprun/base/ranges.h"
#include "ddprun/base/text.h"

namespace ddprun {

namespace {

using nlohmann::json;

constexpr std::size_t kLargest = 50;

std::string phase_of(const MemoryAccount& account, int span, const char* otherwise) {
  return span < 0 ? otherwise : account.recorded().spans[span].name();
}

std::string born_in(const MemoryAccount& account, const MemoryBlock& block) {
  return phase_of(account, block.born_in, block.before);
}

std::string died_in(const MemoryAccount& account, const MemoryBlock& block) {
  return phase_of(account, block.died_in, "");
}

json category_json(const MemoryBytes& bytes) {
  json out = json::object();
  for (const MemoryCategory each : kChoices<MemoryCategory>) out[name_of(each)] = bytes[each];
  return out;
}

json block_json(const MemoryAccount& account, int number) {
  const MemoryBlock& block = account.recorded().blocks[number];
  const std::int64_t begin_ns = account.begin_ns();
  const bool before = block.born_event < 0, after = block.died_event < 0;
  return {{"address", fmt::format("{:x}", reinterpret_cast<std::uintptr_t>(block.address))},
          {"bytes", block.bytes},
          {"lent", block.lent},
          {"category", name_of(account.category(number))},
          {"phase", born_in(account, block)},
          {"unit", block.place.unit_name()},
          {"operation", block.operation},
          {"shape", block.shape},
          {"dtype", block.dtype},
          {"thread", fmt::format("{:x}", block.thread)},
          {"born_ns", before ? json() : json(block.born_ns - begin_ns)},
          {"died_ns", after ? json() : json(block.died_ns - begin_ns)},
          {"died_in", died_in(account, block)}};
}

json moments_json(const MemoryAccount& account) {
  return mapped(account.moments(), [&](const MemoryMoment& moment) {
    return json{{"moment", moment.name},
                {"time_ns", moment.time_ns - account.begin_ns()},
                {"tensors", category_json(moment.tensors)},
                {"process", category_json(moment.bytes)},
                {"unexplained", moment.unexplained()},
                {"resident", moment.resident}};
  });
}

json spans_json(const MemoryAccount& account) {
  return mapped(account.recorded().spans, [&](const MemorySpan& span) {
    return json{{"phase", span.name()},
                {"begin_ns", span.begin_ns - account.begin_ns()},
                {"end_ns", span.end_ns - account.begin_ns()}};
  });
}

/// Every block and event, and all that the other files have. Times in nanoseconds from the step's
/// begin; null: before the step, or after it.
std::string memory_json(const MemoryAccount& account) {
  json blocks = json::array();
  for (std::size_t i = 0; i < account.recorded().blocks.size(); ++i) {
    blocks.push_back(block_json(account, static_cast<int>(i)));
  }
  json events = json::array();
  for (const MemoryEvent& event : account.recorded().events) {
    const std::int64_t bytes = account.recorded().blocks[event.block].counted_bytes();
    events.push_back(
        {event.time_ns - account.begin_ns(), event.block, event.allocated ? bytes : -bytes});
  }
  return json_text({{"event_columns", {"time_ns", "block", "bytes"}},
                    {"phases", spans_json(account)},
                    {"moments", moments_json(account)},
                    {"blocks", std::move(blocks)},
                    {"events", std::move(events)}}) +
         "\n";
}

/// A line for each category and each moment, bytes.
std::string memory_csv(const MemoryAccount& account) {
  std::string out = "category";
  const auto add_line = [&](const std::string& name, const auto& bytes_of) {
    out += "\n" + name;
    for (const MemoryMoment& moment : account.moments())
      out += fmt::format(",{}", bytes_of(moment));
  };
  for (const MemoryMoment& moment : account.moments()) {
    out += fmt::format(",{} ({:.3f} ms)", moment.name,
                       static_cast<double>(moment.time_ns - account.begin_ns()) * 1e-6);
  }
  for (const MemoryCategory each : kChoices<MemoryCategory>) {
    add_line(name_of(each), [each](const MemoryMoment& moment) { return moment.bytes[each]; });
  }
  add_line("unexplained", [](const MemoryMoment& moment) { return moment.unexplained(); });
  add_line("resident", [](const MemoryMoment& moment) { return moment.resident; });
  for (std::size_t i = 0; i < account.peak().library.size(); ++i) {
    add_line(std::string("library: ") + account.peak().library[i].first,
             [i](const MemoryMoment& moment) { return moment.library[i].second; });
  }
  add_line("resident: tensors", [](const MemoryMoment& moment) { return moment.tensors.sum(); });
  return out + "\n";
}

}  // namespace

std::string allocations_csv(const MemoryAccount& account) {
  const std::vector<MemoryBlock>& blocks = account.recorded().blocks;
  std::vector<int> numbers(blocks.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  std::ranges::stable_sort(numbers,
                           [&](int a, int b) { return blocks[a].bytes > blocks[b].bytes; });
  std::set<std::string> operations;
  std::erase_if(numbers, [&, listed = std::size_t{0}](int number) mutable {
    const bool first = operations.insert(blocks[number].operation).second;
    return listed++ >= kLargest && !first;
  });
  const auto ms = [&](std::int64_t ns) {
    return fmt::format("{:.3f}", static_cast<double>(ns - account.begin_ns()) * 1e-6);
  };
  std::string out = "bytes,category,phase,unit,operation,shape,dtype,born_ms,died_ms,died_in\n";
  for (const int number : numbers) {
    const MemoryBlock& block = blocks[number];
    out += fmt::format("{},{},{},{},{},{},{},{},{},{}\n", block.bytes,
                       name_of(account.category(number)), born_in(account, block),
                       block.place.unit_name(), csv_field(block.operation), block.shape,
                       block.dtype, block.born_event < 0 ? "" : ms(block.born_ns),
                       block.died_event < 0 ? "" : ms(block.died_ns), died_in(account, block));
  }
  return out;
}

std::string memory_timeline_json(const MemoryAccount& account) {
  const auto us = [&](std::int64_t ns) {
    return static_cast<double>(ns - account.begin_ns()) * 1e-3;
  };
  json events = json::array();
  for (const MemorySpan& span : account.recorded().spans) {
    events.push_back({{"ph", "X"},
                      {"pid", 0},
                      {"tid", 0},
                      {"name", span.name()},
                      {"ts", us(span.begin_ns)},
                      {"dur", us(span.end_ns) - us(span.begin_ns)}});
  }
  const std::vector<MemoryPoint>& points = account.points();
  for (std::size_t i = 0; i < points.size(); ++i) {
    for (const MemoryCategory category : kChoices<MemoryCategory>) {
      const std::int64_t bytes = points[i].bytes[category];
      if (i > 0 && bytes == points[i - 1].bytes[category]) continue;
      events.push_back({{"ph", "C"},
                        {"pid", 0},
                        {"name", name_of(category)},
                        {"ts", us(points[i].time_ns)},
                        {"args", {{"MB", static_cast<double>(bytes) * 1e-6}}}});
    }
  }
  return json_text({{"displayTimeUnit", "ms"}, {"traceEvents", std::move(events)}}) + "\n";
}

void write_profile(const std::filesystem::path& path, const std::string& text) {
  std::error_code ignored;
  std::filesystem::create_directories(path.parent_path(), ignored);  // opening says why not
  const int error = write_plainly(path, [&text](const TextSink& sink) { sink(text); });
  if (error == 0) return;
  throw Error({.what = "a profile of memory cannot be written",
               .where = path.string(),
               .got = std::strerror(error),
               .expected = "a file that can be written",
               .hint = "free space or rights may be missing; --output DIR writes elsewhere"});
}

void write_memory_files(const std::filesystem::path& folder, const MemoryAccount& account) {
  const auto write = [&](const char* name, const std::string& text) {
    write_profile(folder / name, text);
  };
  write("memory.json", memory_json(account));
  write("memory.csv", memory_csv(account));
  write("allocations.csv", allocations_csv(account));
  write("memory_timeline.json", memory_timeline_json(account));
  write(kMemoryPicture, memory_svg(account));
}

}  // namespace ddprun
