// `ddprun schema`: what editors check and complete experiment files by.
#include <iostream>
#include <string>

#include "ddprun/config/schema/experiment_schema.h"
#include "ddprun/config/schema/options_schema.h"
#include "ddprun/experiments/kinds.h"
#include "runner/command/commands.h"
#include "runner/command/out_file.h"

namespace ddprun {

int schema_command(const Request& request) {
  const PluginRegistry registry = open_registry(request);
  for (const std::string& refusal : registry.refused()) std::cerr << "refused: " << refusal << "\n";
  const std::string text = lines_of(experiment_schema(experiment_kinds(), registry));
  if (request.output.empty()) {
    std::cout << text;
  } else {
    write_out(request.output, [&text](const TextSink& sink) { sink(text); });
  }
  return kExitDone;
}

}  // namespace ddprun
