// Targets that are files beside an experiment: data, earlier results, plugin libraries.
#include <nlohmann/json.hpp>

#include "ddprun/config/registry.h"
#include "ddprun/data/data.h"
#include "faults/fuzz/target.h"
#include "runner/report/earlier_rows.h"
#include "runner/report/report_table.h"
#include "runner/report/result_files.h"
#include "support/report_rows.h"
#include "support/written_results.h"

namespace ddprun::fuzz {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// llm.c's header of a file of `tokens` tokens.
std::string header_of(std::int32_t magic, std::int32_t tokens) {
  std::vector<std::int32_t> header(256, 0);
  header[0] = magic;
  header[1] = 1;
  header[2] = tokens;
  return {reinterpret_cast<const char*>(header.data()), header.size() * sizeof(header[0])};
}

/// The first byte of an input chooses how the others are read.
class Data final : public Target {
 public:
  Data() : Target({"data", "data.bin", 80}) {}

  std::string make(Dice& dice) const override {
    std::string body = "Text of letters, and é and €. ";
    if (dice.one_in(2)) {
      body = header_of(dice.one_in(2) ? 20240520 : 20240801, 40);
      for (int i = 0; i < 40; ++i) body += {static_cast<char>(dice.below(256)), '\0'};
    }
    return static_cast<char>(dice.below(256)) + mutate_text(body, body, dice);
  }

  Verdict run(const std::string& input, const fs::path& scratch) override {
    const int how = first_byte(input);
    const fs::path file = scratch / "data.bin";
    write(file, behind_it(input));
    constexpr std::int64_t kVocabularies[] = {1, 8, 256, 50'257, 65'536, std::int64_t{1} << 40};
    constexpr std::int64_t kContexts[] = {1, 4, 16, std::int64_t{1} << 40};
    DataConfig config;
    config.source = how % 2 == 0 ? DataKind::text : DataKind::tokens;
    config.token_type = how / 2 % 2 == 0 ? TokenType::uint16 : TokenType::uint32;
    config.path.assign(1 + how / 128, how / 4 % 8 == 0 ? scratch.string() : file.string());
    const auto data = open_data(config, kVocabularies[how % 6], kContexts[how / 6 % 4], 0);
    data->batch(how, how, 4);
    data->check_unchanged();
    return Verdict::accepted;
  }
};

/// A random value of a JSON tree.
json& value_in(json& root, Dice& dice) {
  json* at = &root;
  while (at->is_structured() && !at->empty() && !dice.one_in(6)) {
    at = &*std::next(at->begin(), static_cast<std::ptrdiff_t>(dice.below(at->size())));
  }
  return *at;
}

class Result final : public Target {
 public:
  Result() : Target({"result", "result.json", 60, 500}) {
    std::vector<Row> rows = {test::known_row("a=1"), test::known_row("a=2")};
    ResultContext context{"known", "2026-01-31T12-00-00Z", {"ddprun"}, {}, "a: 1\n", {"a: 1\n"}};
    good_ = test::result_json(context, TableLines(rows));
  }

  std::string make(Dice& dice) const override {
    const std::string text = good_.dump();
    if (dice.one_in(2)) return mutate_text(text, text, dice);
    const std::vector<json> values = {nullptr,
                                      true,
                                      -1,
                                      0,
                                      1e308,
                                      5000000000,
                                      "",
                                      "nan",
                                      "failed",
                                      json::array(),
                                      json::object(),
                                      json::array({json::array()})};
    json changed = good_;
    for (std::size_t i = 1 + dice.below(3); i > 0; --i) {
      json& value = value_in(changed, dice);
      if (value.is_structured() && !value.empty() && dice.one_in(2)) {
        value.erase(value.begin());
      } else {
        value = dice.pick(values);
      }
    }
    return changed.dump(-1, ' ', false, json::error_handler_t::replace);
  }

  /// Rows that are believed are also reported and written again.
  Verdict run(const std::string& input, const fs::path& scratch) override {
    fs::create_directories(scratch / "earlier");
    write(scratch / "earlier" / "result.json", input);
    std::vector<Row> rows;
    for (const auto& [run, known] : earlier_rows(scratch)) rows.push_back(known.front().row);
    if (rows.empty()) return Verdict::refused;
    terminal_report(TableLines(rows), Terminal{});
    for (const Row& row : rows) test::row_json(row);
    return Verdict::accepted;
  }

 private:
  json good_;
};

class Plugin final : public Target {
 public:
  /// A damaged library may harm its process without ending it, and the next one would be blamed.
  explicit Plugin(const fs::path& build)
      : Target({.name = "plugin", .file_name = "fuzz.so", .share = 10, .batch = 1}),
        good_(read(build / "lib" / "ddprun" / "plugins" / "strategy_flat.so")) {}
  bool is_refusal(const std::string& death) const override {
    return death == "ended with exit status 2";  // with a sentence, by CrashWords
  }

  std::string make(Dice& dice) const override {
    if (dice.one_in(8)) return good_.substr(0, dice.below(good_.size()));
    if (dice.one_in(2)) return flip_bytes(good_, 1 + dice.below(8), dice);
    constexpr std::size_t kHeaders = 4096;  // where one byte has the most effect
    return flip_bytes(good_.substr(0, kHeaders), 1 + dice.below(4), dice) + good_.substr(kHeaders);
  }

  Verdict run(const std::string& input, const fs::path& scratch) override {
    write(scratch / "fuzz.so", input);
    const PluginRegistry registry({scratch});
    for (const PluginInfo& info : registry.list()) registry.create(info.kind, info.name);
    return registry.list().empty() ? Verdict::refused : Verdict::accepted;
  }

 private:
  std::string good_;
};

}  // namespace

std::unique_ptr<Target> data_target() { return std::make_unique<Data>(); }
std::unique_ptr<Target> result_target() { return std::make_unique<Result>(); }
std::unique_ptr<Target> plugin_target(const fs::path& build) {
  return std::make_unique<Plugin>(build);
}

}  // namespace ddprun::fuzz
