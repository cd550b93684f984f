// Reads what torch.save wrote: a ZIP with a pickle, and each storage as a file. Nothing that a file
// says is called or believed.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "ddprun/checkpoint/pickle.h"
#include "ddprun/checkpoint/weights_file.h"

namespace caffe2::serialize {
class PyTorchStreamReader;
}

namespace ddprun {

/// The tensors of a state dict: of the dict that was saved, or of its "model", "model_state_dict"
/// or "state_dict". Names lose what torch.compile and DistributedDataParallel put before them
/// ("_orig_mod.", "module.").
class TorchFile : public WeightsFile {
 public:
  /// Throws ConfigError if the file is none of torch.save (1.6 or later), or has no such dict, or a
  /// tensor is not within its storage.
  explicit TorchFile(const std::filesystem::path& path);
  ~TorchFile() override;

  at::Tensor read(const std::string& name) const override;

 private:
  /// Where a tensor's elements lie, counted in elements.
  struct Place {
    std::string record;
    std::int64_t offset = 0;
    std::vector<std::int64_t> strides;
  };
  void open();
  std::string record(const std::string& name) const;
  void add_tensors(const Pickle& pickle);
  void add_tensor(const std::string& name, const Pickle& pickle, const PickledValue& rebuilt);

  std::filesystem::path path_;
  std::unique_ptr<caffe2::serialize::PyTorchStreamReader> reader_;
  std::vector<Place> places_;  // of tensors()
};

}  // namespace ddprun
