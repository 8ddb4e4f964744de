// GgufSeeds.cpp - makes the seeds of the GGUF fuzzer: gguf_seeds FOLDER. Run it
// when a format is added, and commit what it writes.
#include "runtime/GgufWriter.h"

#include <cstdio>
#include <cstring>
#include <fstream>

using namespace ds4;

namespace {

/// Keys as a model has them, of every kind of value.
GgufWriter metadata() {
  GgufWriter writer;
  writer.set("general.architecture", GgufValue::of("deepseek4"));
  writer.set("general.alignment", GgufValue::of(uint32_t{32}));
  writer.set("deepseek4.block_count", GgufValue::of(uint32_t{2}));
  writer.set("deepseek4.context_length", GgufValue::of(uint64_t{1048576}));
  writer.set("deepseek4.rope.freq_base", GgufValue::of(10000.0f));
  writer.set("deepseek4.expert_weights_norm", GgufValue::of(true));
  writer.set("deepseek4.attention.compress_ratios",
             GgufValue::of(std::vector<int32_t>{0, 4}));
  writer.set("deepseek4.swiglu_clamp_exp",
             GgufValue::of(std::vector<double>{10, 10}));
  writer.set("deepseek4.gumix.sidecar",
             GgufValue::of(std::vector<uint8_t>{'G', 'U', 0, 255}));
  writer.set("tokenizer.ggml.tokens",
             GgufValue::of(std::vector<std::string>{"a", "", "\xc4\xa0the"}));
  writer.set("small", GgufValue::of(int8_t{-1}));
  writer.set("short", GgufValue::of(int16_t{-2}));
  writer.set("long", GgufValue::of(int64_t{-3}));
  writer.set("nested", GgufValue::of(std::vector<GgufValue>{
                           GgufValue::of(std::vector<uint16_t>{1, 2}),
                           GgufValue::of(std::vector<GgufValue>{
                               GgufValue::of(std::vector<float>{0.5f})})}));
  return writer;
}

/// Writes the header of `writer` and `dataBytes` zeros after `change`.
template <typename Change>
bool save(const std::string &path, const GgufWriter &writer, size_t dataBytes,
          Change change) {
  Result<std::vector<std::byte>> header = writer.header();
  if (!header) {
    std::fprintf(stderr, "%s\n", header.error().text.c_str());
    return false;
  }
  header->resize(header->size() + dataBytes);
  change(*header);
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char *>(header->data()),
            static_cast<std::streamsize>(header->size()));
  return out.good();
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: gguf_seeds FOLDER\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  auto unchanged = [](std::vector<std::byte> &) {};
  const GgufWriter keys = metadata();

  GgufWriter formats;
  for (const WeightFormatInfo &info : weightFormats())
    if (!formats.declareTensor("blk.0." + std::string(info.name), {256, 2, 3},
                               info.format))
      return 1;
  GgufWriter small = keys;
  GgufWriter wide;
  wide.set("general.alignment", GgufValue::of(uint32_t{4096}));
  for (const char *name : {"token_embd.weight", "output.weight"})
    if (!small.declareTensor(name, {32, 1}, WeightFormat::q8_0) ||
        !wide.declareTensor(name, {2, 1, 1, 1}, WeightFormat::f16))
      return 1;

  bool good = save(folder + "metadata.gguf", keys, 0, unchanged);
  good &= save(folder + "formats.gguf", formats, 0, unchanged);
  good &= save(folder + "whole.gguf", small, 2 * 64, unchanged);
  good &= save(folder + "truncated.gguf", small, 64, unchanged);
  good &= save(folder + "alignment.gguf", wide, 0, unchanged);
  good &= save(folder + "version2.gguf", small, 0,
               [](std::vector<std::byte> &bytes) { bytes[4] = std::byte{2}; });
  good &=
      save(folder + "counts.gguf", small, 0, [](std::vector<std::byte> &bytes) {
        std::memset(&bytes[8], 0xff, 8);
      });
  return good ? 0 : 1;
}
