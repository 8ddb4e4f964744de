// Shape.cpp - a shape is written as a GGUF header and read back, so that it
// passes the checks that files pass and the compiler sees no difference.
#include "models/Shape.h"

#include "codegen/EmbeddedText.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <sstream>

extern const ds4::EmbeddedText kShapeTexts[];
extern const unsigned kShapeTextsCount;

namespace ds4 {

using Json = nlohmann::ordered_json;

/// Layers that a shape may have; hyper-parameters are checked elsewhere.
static constexpr uint64_t kMostLayers = 1024;
/// Shapes that build on one another; more is a circle.
static constexpr int kMostBases = 8;

static std::string_view stem(const EmbeddedText &shape) {
  return shape.path.substr(0, shape.path.rfind('.'));
}

static std::span<const EmbeddedText> builtInShapes() {
  return {kShapeTexts, kShapeTextsCount};
}

std::string shapeNames() {
  std::string names;
  for (const EmbeddedText &shape : builtInShapes())
    names += (names.empty() ? "" : ", ") + std::string(stem(shape));
  return names;
}

namespace {

struct ShapeText {
  std::string name; ///< without folder and extension
  std::string text;
  std::filesystem::path folder;
};

struct Tensor {
  std::string name;
  WeightFormat format;
  std::vector<uint64_t> dims;
};

/// Collects what a shape and its bases say.
class ShapeReader {
public:
  Status read(std::string_view text, const std::string &shapeName,
              const std::filesystem::path &folder);
  Result<Gguf> finish();
  /// After finish().
  Result<GgufWriter> firstLayers(uint32_t layers) const;

private:
  Error bad(std::string_view field, std::string_view expected) const {
    return invalidInput(
        fmt::format("shape {}: {} is not {}", name, field, expected));
  }
  Status readMetadata(const std::string &key, const Json &value);
  Status readGroup(const Json &group, const std::string &field);
  Status readTensor(const std::string &tensor, const Json &value,
                    const std::string &field);
  Result<uint64_t> total(const char *key) const;

  std::string name; ///< of the shape being read, for messages
  int bases = 0;
  GgufWriter writer;
  std::vector<Tensor> tensors;
  std::map<std::string, size_t> tensorIndex;
  Json totals;
};

} // namespace

static Result<ShapeText> findShape(const std::string &nameOrFile,
                                   const std::filesystem::path &folder) {
  for (const EmbeddedText &shape : builtInShapes())
    if (stem(shape) == nameOrFile)
      return ShapeText{nameOrFile, std::string(shape.text), {}};
  const std::filesystem::path path = folder / nameOrFile;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    return invalidInput(fmt::format("shape '{}' is neither built in ({}) nor a "
                                    "readable file",
                                    nameOrFile, shapeNames()));
  return ShapeText{path.stem().string(), std::move(text).str(),
                   path.parent_path()};
}

/// A number that ends at the end of `text`.
static bool parseLayer(std::string_view text, uint64_t &number) {
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  return code == std::errc() && end == text.data() + text.size() &&
         number < kMostLayers;
}

/// "0-2, 7, 10-20/2": layers, or nothing.
static std::optional<std::vector<uint64_t>> parseLayers(std::string_view text) {
  std::vector<uint64_t> layers;
  while (true) {
    const size_t comma = text.find(',');
    std::string_view range = text.substr(0, comma);
    range.remove_prefix(std::min(range.find_first_not_of(' '), range.size()));
    uint64_t step = 1, first = 0, last = 0;
    if (const size_t slash = range.find('/'); slash != std::string_view::npos) {
      if (!parseLayer(range.substr(slash + 1), step) || step == 0)
        return std::nullopt;
      range = range.substr(0, slash);
    }
    const size_t dash = range.find('-');
    if (!parseLayer(range.substr(0, dash), first))
      return std::nullopt;
    last = first;
    if (dash != std::string_view::npos &&
        (!parseLayer(range.substr(dash + 1), last) || last < first))
      return std::nullopt;
    for (uint64_t layer = first; layer <= last; layer += step)
      layers.push_back(layer);
    if (comma == std::string_view::npos)
      return layers;
    text = text.substr(comma + 1);
  }
}

/// A metadata value, or nothing.
static std::optional<GgufValue> metadataValue(const Json &value) {
  if (value.is_string())
    return GgufValue::of(value.get<std::string>());
  if (value.is_boolean())
    return GgufValue::of(value.get<bool>());
  if (value.is_number_float())
    return GgufValue::of(value.get<float>());
  if (value.is_number_integer() && value >= 0 && value <= UINT32_MAX)
    return GgufValue::of(value.get<uint32_t>());
  if (!value.is_array())
    return std::nullopt;
  auto isI32 = [](const Json &it) {
    return it.is_number_integer() && it >= INT32_MIN && it <= INT32_MAX;
  };
  if (std::ranges::all_of(value, isI32))
    return GgufValue::of(value.get<std::vector<int32_t>>());
  if (std::ranges::all_of(value, [](const Json &it) { return it.is_number(); }))
    return GgufValue::of(value.get<std::vector<float>>());
  return std::nullopt;
}

Status ShapeReader::readMetadata(const std::string &key, const Json &value) {
  std::optional<GgufValue> metadata = metadataValue(value);
  if (!metadata)
    return bad(fmt::format("metadata.\"{}\"", key),
               "a string, a boolean, a number or an array of numbers");
  writer.set(key, std::move(*metadata));
  return Status::ok();
}

Status ShapeReader::readTensor(const std::string &tensor, const Json &value,
                               const std::string &field) {
  auto isDim = [](const Json &it) { return it.is_number_unsigned(); };
  if (!value.is_array() || value.size() < 2 || !value[0].is_string() ||
      !std::all_of(value.begin() + 1, value.end(), isDim))
    return bad(field, "[FORMAT, dimension, ...]");
  Tensor read{tensor, WeightFormat::f32, {}};
  const std::string format = value[0];
  std::optional<WeightFormat> known = weightFormatFromName(format);
  if (!known)
    return bad(field + "[0]", "a weight format that this version knows");
  read.format = *known;
  for (size_t i = 1; i < value.size(); ++i)
    read.dims.push_back(value[i]);
  auto [it, isNew] = tensorIndex.try_emplace(tensor, tensors.size());
  if (isNew)
    tensors.push_back(std::move(read));
  else
    tensors[it->second] = std::move(read);
  return Status::ok();
}

Status ShapeReader::readGroup(const Json &group, const std::string &field) {
  if (!group.is_object() || !group.contains("tensors") ||
      !group["tensors"].is_object())
    return bad(field, "an object with \"tensors\", an object");
  std::vector<std::string> prefixes = {""};
  if (group.contains("layers")) {
    const Json &text = group["layers"];
    std::optional<std::vector<uint64_t>> layers;
    if (text.is_string())
      layers = parseLayers(text.get_ref<const std::string &>());
    if (!layers)
      return bad(field + ".layers",
                 fmt::format("a list of layers such as \"0-2, 7, 10-20/2\", "
                             "each below {}",
                             kMostLayers));
    prefixes.clear();
    for (uint64_t layer : *layers)
      prefixes.push_back(fmt::format("blk.{}.", layer));
  }
  for (const std::string &prefix : prefixes)
    for (const auto &[tensor, value] : group["tensors"].items())
      DS4_TRY(readTensor(prefix + tensor, value,
                         fmt::format("{}.tensors.\"{}\"", field, tensor)));
  return Status::ok();
}

Status ShapeReader::read(std::string_view text, const std::string &shapeName,
                         const std::filesystem::path &folder) {
  Json shape;
  try {
    shape = Json::parse(text);
  } catch (const Json::exception &exception) {
    return invalidInput(
        fmt::format("shape {} is not JSON: {}", shapeName, exception.what()));
  }
  name = shapeName;
  if (!shape.is_object())
    return bad("the text", "an object");
  if (shape.contains("base")) {
    if (!shape["base"].is_string() || ++bases > kMostBases)
      return bad("base", "the name of a shape that does not lead back here");
    DS4_ASSIGN(ShapeText base,
               findShape(shape["base"].get<std::string>(), folder));
    DS4_TRY(read(base.text, base.name, base.folder));
    name = shapeName;
  }
  for (const auto &[key, value] : shape.items())
    if (key != "about" && key != "base" && key != "metadata" &&
        key != "groups" && key != "totals")
      return invalidInput(
          fmt::format("shape {}: {} is not a field of shapes (about, base, "
                      "metadata, groups, totals)",
                      name, ggufQuoted(key)));
  for (const auto &[key, kind] : {std::pair("metadata", Json::value_t::object),
                                  std::pair("groups", Json::value_t::array),
                                  std::pair("totals", Json::value_t::object)})
    if (!shape.contains(key) || shape[key].type() != kind)
      return bad(key, kind == Json::value_t::array ? "an array" : "an object");
  for (const auto &[key, value] : shape["metadata"].items())
    DS4_TRY(readMetadata(key, value));
  for (size_t i = 0; i < shape["groups"].size(); ++i)
    DS4_TRY(readGroup(shape["groups"][i], fmt::format("groups[{}]", i)));
  totals = shape["totals"];
  return Status::ok();
}

Result<uint64_t> ShapeReader::total(const char *key) const {
  auto it = totals.find(key);
  if (it == totals.end() || !it->is_number_unsigned())
    return bad(fmt::format("totals.{}", key), "a number of tensors or bytes");
  return it->get<uint64_t>();
}

Result<Gguf> ShapeReader::finish() {
  for (const Tensor &tensor : tensors)
    if (Status added =
            writer.declareTensor(tensor.name, tensor.dims, tensor.format);
        !added)
      return invalidInput(
          fmt::format("shape {}: {}", name, added.error().text));
  DS4_ASSIGN(std::vector<std::byte> header, writer.header());
  DS4_ASSIGN(uint64_t bytes, writer.fileBytes());
  DS4_ASSIGN(uint64_t tensorTotal, total("tensors"));
  DS4_ASSIGN(uint64_t dataTotal, total("data_bytes"));
  DS4_ASSIGN(uint64_t fileTotal, total("file_bytes"));
  if (tensorTotal != tensors.size() || dataTotal != bytes - header.size())
    return invalidInput(fmt::format(
        "shape {}: totals say {} tensors of {} bytes, the groups have {} of {}",
        name, tensorTotal, dataTotal, tensors.size(), bytes - header.size()));
  return Gguf::parse(header, fileTotal, fmt::format("shape {}", name));
}

/// The layer of a tensor "blk.N.name", or nothing.
static std::optional<uint64_t> layerOf(std::string_view tensor) {
  constexpr std::string_view kPrefix = "blk.";
  uint64_t layer = 0;
  if (!tensor.starts_with(kPrefix))
    return std::nullopt;
  tensor.remove_prefix(kPrefix.size());
  if (!parseLayer(tensor.substr(0, tensor.find('.')), layer))
    return std::nullopt;
  return layer;
}

Result<GgufWriter> ShapeReader::firstLayers(uint32_t layers) const {
  constexpr const char *kCount = "deepseek4.block_count";
  DS4_ASSIGN(const std::vector<std::byte> header, writer.header());
  DS4_ASSIGN(const uint64_t bytes, writer.fileBytes());
  DS4_ASSIGN(const Gguf whole, Gguf::parse(header, bytes, "shape " + name));
  DS4_ASSIGN(const uint64_t all, whole.u64(kCount));
  if (layers > all)
    return invalidInput(fmt::format("shape {} has {} layers, {} were asked for",
                                    name, all, layers));
  GgufWriter first;
  first.copyMetadata(whole);
  first.set(kCount, GgufValue::of(layers));
  for (const Tensor &tensor : tensors)
    if (layerOf(tensor.name).value_or(0) < layers)
      DS4_TRY(first.declareTensor(tensor.name, tensor.dims, tensor.format));
  return first;
}

Result<GgufWriter> openShapeWriter(const std::string &nameOrFile,
                                   uint32_t layers) {
  DS4_ASSIGN(const ShapeText shape, findShape(nameOrFile, {}));
  ShapeReader reader;
  DS4_TRY(reader.read(shape.text, shape.name, shape.folder));
  DS4_ASSIGN(const Gguf whole, reader.finish());
  if (layers == 0) {
    DS4_ASSIGN(const uint64_t all, whole.u64("deepseek4.block_count"));
    layers = static_cast<uint32_t>(all);
  }
  return reader.firstLayers(layers);
}

Result<Gguf> parseShape(std::string_view json, const std::string &name,
                        const std::filesystem::path &folder) {
  ShapeReader reader;
  DS4_TRY(reader.read(json, name, folder));
  return reader.finish();
}

Result<Gguf> openShape(const std::string &nameOrFile) {
  DS4_ASSIGN(ShapeText shape, findShape(nameOrFile, {}));
  return parseShape(shape.text, shape.name, shape.folder);
}

} // namespace ds4
