// The options of the section `data:`.
#include "ddprun/data/data_config.h"

#include "ddprun/base/options.h"

namespace ddprun {

void declare_options(Options& o, DataConfig& c) {
  o.option("source", &c.source, "text files read as bytes, token files, or random tokens");
  o.option("path", &c.path,
           "files or folders of text, or files of tokens, relative to the file's folder; wildcards "
           "(*, ?, [...]) match files");
  o.option("weights", &c.weights,
           "what share of the samples each path has, in any unit; without them all paths are one "
           "sequence",
           {.min = 1e-9, .max = 1e9});
  o.option("token_type", &c.token_type, "of token files, little-endian");
  o.option("tokenizer", &c.tokenizer,
           "the tokenizer.json of token files, relative to the file's folder: for text that the "
           "model writes, and bits per byte");
  o.option("document_end", &c.document_end,
           "the token that ends a document: attention and loss do not go on behind it; -1: samples "
           "are not cut into documents",
           {.min = -1, .max = 4294967295.0});
  o.option("order", &c.order,
           "windows at random places; or the windows that the files are cut into, each once in an "
           "epoch, in an order drawn for the epoch, or one after another");
}

}  // namespace ddprun
