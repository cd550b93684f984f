// What a document may say of the plugins of one kind.
#pragma once

#include <string>
#include <vector>

#include "ddprun/config/registry.h"
#include "ddprun/config/schema/options_schema.h"

namespace ddprun {

/// Throws PluginError if a plugin cannot be made.
class PluginSchema {
 public:
  PluginSchema(PluginKind kind, const PluginRegistry& registry);

  /// The key of the document, which is also the name of the definition of its value.
  const std::string& key() const { return key_; }
  const std::string& help() const { return help_; }

  /// Its value (a name, or a mapping with one and the options of that plugin), the mappings of the
  /// single plugins, and what conditions have in common.
  Schema definitions() const;
  /// The key paths of the plugins that a sweep may have, with lists of any values.
  Schema swept_paths() const;
  /// What is to hold of the whole document besides: that it names a plugin, that a plugin is one of
  /// the registry's unless the document says where its library is, and that swept options are
  /// those of the plugins that are named.
  Schema conditions() const;

 private:
  struct Known {
    std::string name, summary;
    Schema mapping;
  };

  std::string definition_of(const Known& plugin) const { return key_ + "." + plugin.name; }
  std::string known() const { return "known." + key_; }      ///< a name of the registry
  std::string swept() const { return "swept." + key_; }      ///< the sweep says which plugin it is
  std::string unknown() const { return "unknown." + key_; }  ///< its library may be any
  Schema names() const;
  Schema choice() const;
  Schema may_be_any() const;
  Schema is_named(const Known& plugin) const;
  Schema swept_options(const Known& plugin) const;

  std::string key_, help_;
  std::vector<Known> plugins_;
};

}  // namespace ddprun
