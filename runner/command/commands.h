// The commands besides run: validate, list, describe, verify, and the text of --version.
// Family: commands.cpp verify_command.cpp
#pragma once

#include <string>

#include "ddprun/config/registry.h"
#include "runner/command/request.h"

namespace ddprun {

/// The plugins of the search path, --plugin-path first.
PluginRegistry open_registry(const Request& request);

int validate_command(const Request& request);
int list_command(const Request& request);
int describe_command(const Request& request);
int verify_command(const Request& request);
std::string version_text();

}  // namespace ddprun
