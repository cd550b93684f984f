// What is said of a name that none of an enum's values has.
#include "ddprun/base/choice.h"

#include "ddprun/base/error.h"
#include "ddprun/base/ranges.h"

namespace ddprun {

void throw_unknown_name(std::string_view name, std::span<const char* const> names) {
  throw Error({.what = "a result has an unknown name",
               .where = "a text that ddprun wrote",
               .got = std::string(name),
               .expected = list_text(names),
               .hint = "it was written by another version of ddprun, or is damaged"});
}

}  // namespace ddprun
