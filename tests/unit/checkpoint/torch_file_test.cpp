// What torch.save writes, made here code by code; tests/python has files of torch.save itself.
#include "ddprun/checkpoint/torch_file.h"

#include <ATen/Functions.h>
#include <caffe2/serialize/inline_container.h>

#include <cstdlib>
#include <fstream>
#include <numeric>
#include <random>

#include "support/ddprun_command.h"

namespace ddprun::torch_file_test {
namespace {

std::string little_endian(std::uint32_t number) {
  std::string out;
  for (int i = 0; i < 4; ++i) out += static_cast<char>(number >> (8 * i));
  return out;
}
std::string text(const std::string& value) { return "X" + little_endian(value.size()) + value; }
std::string number(std::uint32_t value) { return "J" + little_endian(value); }
std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
std::string tuple(const std::vector<std::string>& items) {
  return "(" + std::accumulate(items.begin(), items.end(), std::string()) + "t";
}
std::string numbers(const std::vector<std::uint32_t>& values) {
  std::vector<std::string> items;
  for (const std::uint32_t value : values) items.push_back(number(value));
  return tuple(items);
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [name, value] : items) out += text(name) + value;
  return out + "u";
}
std::string ordered(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = global("collections", "OrderedDict") + ")R(";
  for (const auto& [name, value] : items) out += text(name) + value;
  return out + "u}X" + little_endian(9) + "_metadata" +
         "}sb";  // with an attribute, as modules have
}

struct SavedTensor {
  std::string key = "0";
  std::uint32_t offset = 0;
  std::vector<std::uint32_t> sizes = {2, 3}, strides = {3, 1};
  std::string storage = "FloatStorage";
};

std::string tensor(const SavedTensor& of) {
  const std::string id =
      tuple({text("storage"), global("torch", of.storage), text(of.key), text("cpu"), number(6)});
  return global("torch._utils", "_rebuild_tensor_v2") +
         tuple({id + "Q", number(of.offset), numbers(of.sizes), numbers(of.strides), "\x89",
                global("collections", "OrderedDict") + ")R"}) +
         "R";
}
std::string parameter(const SavedTensor& of) {
  return global("torch._utils", "_rebuild_parameter") + tuple({tensor(of), "\x88", "N"}) + "R";
}
std::string pickled(const std::string& value) { return "\x80\x02" + value + "."; }

class TorchFileTest : public testing::Test {
 protected:
  /// A file with that pickle, and a storage "0" of 0, 1, ..., 5 in float32.
  std::string file_of(const std::string& pickle, const std::string& byte_order = "little") {
    std::filesystem::remove(path_);
    caffe2::serialize::PyTorchStreamWriter writer(path_);
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeRecord("byteorder", byte_order.data(), byte_order.size());
    const std::array<float, 6> values = {0, 1, 2, 3, 4, 5};
    writer.writeRecord("data/0", values.data(), sizeof values);
    writer.writeEndOfFile();
    return path_;
  }
  std::string refusal(const std::string& value) {
    file_of(pickled(value));
    return test::error_of<ConfigError>([&] { const TorchFile file(path_); });
  }

  test::TemporaryFolder folder_;
  const std::string path_ = folder_.path() / "w.pt";
};

TEST_F(TorchFileTest, HasTheTensorsOfAStateDict) {
  const TorchFile file(
      file_of(pickled(ordered({{"w", parameter({})},
                               {"turned", tensor({.strides = {1, 2}})},
                               {"end", tensor({.offset = 4, .sizes = {2}, .strides = {1}})},
                               {"one", tensor({.offset = 5, .sizes = {}, .strides = {}})},
                               {"steps", number(7)}}))));
  ASSERT_EQ(file.tensors().size(), 4u);
  EXPECT_TRUE(file.read("w").equal(at::arange(6, at::kFloat).view({2, 3})));
  EXPECT_TRUE(file.read("turned").equal(at::arange(6, at::kFloat).view({3, 2}).t()));
  EXPECT_TRUE(file.read("end").equal(at::arange(4, 6).to(at::kFloat)));
  EXPECT_EQ(file.read("one").item<float>(), 5);
  EXPECT_EQ(file.find("w")->sizes, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.find("steps"), nullptr);
}

TEST_F(TorchFileTest, HasTheDtypeOfTheStorage) {
  for (const auto& [storage, dtype] :
       {std::pair("DoubleStorage", at::kDouble), std::pair("FloatStorage", at::kFloat),
        std::pair("HalfStorage", at::kHalf), std::pair("BFloat16Storage", at::kBFloat16),
        std::pair("LongStorage", at::kLong), std::pair("IntStorage", at::kInt),
        std::pair("ShortStorage", at::kShort), std::pair("CharStorage", at::kChar),
        std::pair("ByteStorage", at::kByte), std::pair("BoolStorage", at::kBool)}) {
    const SavedTensor saved = {.sizes = {2}, .strides = {1}, .storage = storage};
    EXPECT_EQ(TorchFile(file_of(pickled(dict({{"w", tensor(saved)}})))).read("w").dtype(), dtype);
  }
}

TEST_F(TorchFileTest, FindsTheModelAmongWhatATrainingLoopSaves) {
  const std::string model = ordered({{"module._orig_mod.module.w", tensor({})}});
  const std::string moments = dict({{"state", dict({{"m", tensor({})}})}});
  for (const char* key : {"model", "model_state_dict", "state_dict"}) {
    const TorchFile file(
        file_of(pickled(dict({{"optimizer", moments}, {key, model}, {"iteration", number(5)}}))));
    ASSERT_EQ(file.tensors().size(), 1u) << key;
    EXPECT_EQ(file.tensors().front().name, "w");
  }
}

TEST_F(TorchFileTest, CallsNothing) {
  const std::string attack =
      global("os", "system") + tuple({text("touch " + path_ + ".ran")}) + "R";
  const TorchFile file(file_of(pickled(dict({{"w", tensor({})}, {"x", attack}}))));
  EXPECT_EQ(file.tensors().size(), 1u);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".ran"));
}

TEST_F(TorchFileTest, RefusesWhatIsNoStateDict) {
  EXPECT_THAT(refusal(number(3)), HasSubstr("an object that is no dict"));
  EXPECT_THAT(refusal(dict({{"a", number(3)}})), HasSubstr("a dict without tensors"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.offset = 1})}})),
              HasSubstr("w is not within its storage"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.strides = {0x7fffffff, 0x7fffffff}})}})),
              HasSubstr("w is not within its storage"));
  EXPECT_THAT(
      refusal(dict(
          {{"w", tensor({.sizes = {0x7fffffff, 0x7fffffff, 0x7fffffff}, .strides = {0, 0, 0}})}})),
      HasSubstr("too large"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.key = "1"})}})), HasSubstr("w has no values"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.sizes = {6}})}})), HasSubstr("a stride for each size"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.offset = 0xffffffff})}})),
              HasSubstr("no natural number"));
  EXPECT_THAT(refusal(dict({{"w", tensor({.storage = "QInt8Storage"})}})),
              HasSubstr("QInt8Storage"));
  EXPECT_THAT(refusal(dict({{"w", tensor({})}, {"module.w", tensor({})}})),
              HasSubstr("a name that comes twice: w"));
  EXPECT_THAT(refusal("}u"), HasSubstr("a mark that is not there"));
  EXPECT_THAT(refusal("h\x07"), HasSubstr("recalls what it did not keep"));
  EXPECT_THAT(refusal("\x93"), HasSubstr("code 0x93"));
  EXPECT_THAT(refusal("\x80\x04}"), HasSubstr("a later protocol"));
  EXPECT_THAT(refusal(std::string("X\xff\xff\xff\x7f", 5)), HasSubstr("ends too early"));
  file_of(pickled(dict({{"w", tensor({})}})), "big");
  EXPECT_THAT(test::error_of<ConfigError>([&] { const TorchFile file(path_); }),
              HasSubstr("another byte order"));
  std::ofstream(path_) << "PK and no ZIP";
  EXPECT_THAT(test::error_of<ConfigError>([&] { const TorchFile file(path_); }),
              HasSubstr("not a state dict as torch.save writes it"));
}

TEST_F(TorchFileTest, MutatedOnesAreRefusedOrHaveValues) {
  const char* const asked = std::getenv("DDPRUN_MUTATIONS");
  const int count = asked == nullptr ? 500 : std::atoi(asked);
  std::mt19937_64 dice(5);
  const std::string pickle = pickled(dict(
      {{"model", ordered({{"w", parameter({})}, {"b", tensor({.sizes = {6}, .strides = {1}})}})},
       {"n", number(1)}}));
  file_of(pickle);
  std::ifstream in(path_, std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  int refused = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = i % 2 == 0 ? pickle : whole;
    for (std::uint64_t flips = 1 + dice() % 3; flips > 0; --flips) {
      bytes[dice() % bytes.size()] = static_cast<char>(dice());
    }
    if (dice() % 4 == 0) bytes.resize(dice() % bytes.size());
    if (i % 2 == 0) {
      file_of(bytes);
    } else {
      std::ofstream(path_, std::ios::binary) << bytes;
    }
    try {
      const TorchFile file(path_);
      for (const TensorSpec& spec : file.tensors()) {
        EXPECT_EQ(file.read(spec.name).sizes(), at::IntArrayRef(spec.sizes));
      }
    } catch (const ConfigError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, count / 4);
  EXPECT_LT(refused, count);
}

}  // namespace
}  // namespace ddprun::torch_file_test
