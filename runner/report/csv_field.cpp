// Quoting.
#include "runner/report/csv_field.h"

#include <boost/algorithm/string/replace.hpp>

namespace ddprun {

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return '"' + boost::replace_all_copy(text, "\"", "\"\"") + '"';
}

}  // namespace ddprun
