// A JSON Schema that documents are held against, by valijson.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace ddprun::test {

class JsonSchema {
 public:
  explicit JsonSchema(const nlohmann::json& text) {
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(valijson::adapters::NlohmannJsonAdapter(text), schema_);
  }

  bool accepts(const nlohmann::json& document) {
    return validator_.validate(schema_, valijson::adapters::NlohmannJsonAdapter(document), nullptr);
  }

  /// Why it refuses the document, a line each.
  std::string refusal(const nlohmann::json& document) {
    valijson::ValidationResults results;
    validator_.validate(schema_, valijson::adapters::NlohmannJsonAdapter(document), &results);
    std::string text;
    for (const auto& error : results) {
      for (const std::string& part : error.context) text += part;
      text += ": " + error.description + "\n";
    }
    return text;
  }

 private:
  valijson::Schema schema_;
  valijson::Validator validator_;
};

}  // namespace ddprun::test
