// Synthesizer.cpp - every piece of a tensor has its own seed, so that threads
// may make them in any order.
#include "quant/Synthesizer.h"

#include "quant/MixTables.h"
#include "runtime/RandomRows.h"

#include <map>

namespace ds4::quant {

/// A seed for a part of what `seed` stands for.
static uint64_t partSeed(uint64_t seed, uint64_t part) {
  return SplitMix(SplitMix(seed).next() ^ part).next();
}

/// Sets the tables of the books of `tensors`.
static Status addBooks(GgufWriter &shape, const Gguf &gguf, uint64_t seed) {
  DS4_ASSIGN(const uint64_t groups,
             gguf.u64("deepseek4.attention.output_group_count"));
  MixTables tables(static_cast<uint32_t>(groups));
  SplitMix random(seed);
  for (const GgufTensor &tensor : gguf.tensors()) {
    const WeightFormat format = tensor.format();
    if (weightFormatInfo(format).bookLevels == 0)
      continue;
    DS4_TRY(tables.check(tensor, format));
    tables.add(tensor, format,
               randomBooks(random, format,
                           tensor.dims.size() == 3 ? tensor.dims[2] : 1));
  }
  tables.write(shape);
  return Status::ok();
}

static Result<Gguf> headerOf(const GgufWriter &shape,
                             const std::filesystem::path &path) {
  DS4_ASSIGN(const std::vector<std::byte> header, shape.header());
  DS4_ASSIGN(const uint64_t bytes, shape.fileBytes());
  return Gguf::parse(header, bytes, path.string());
}

Status synthesizeFile(GgufWriter shape, const std::filesystem::path &path,
                      const SynthesizeOptions &options) {
  DS4_ASSIGN(const Gguf gguf, headerOf(shape, path));
  DS4_ASSIGN(const uint64_t experts, gguf.u64("deepseek4.expert_count"));
  DS4_TRY(addBooks(shape, gguf, partSeed(options.seed, 0)));
  if (options.sparse)
    return shape.writeSparse(path);
  std::map<std::string_view, uint64_t> seeds;
  for (const GgufTensor &tensor : gguf.tensors())
    seeds[tensor.name] = partSeed(options.seed, seeds.size() + 1);
  const auto fill = [&](const GgufTensor &tensor, uint64_t first,
                        std::span<std::byte> bytes) -> Status {
    if (options.cancelled && options.cancelled())
      return Error{ErrorCode::cancelled, "writing was cancelled"};
    const RandomRow row{tensor.format(), tensor.dims[0],
                        tensor.dims.size() == 1,
                        static_cast<uint32_t>(experts)};
    SplitMix random(partSeed(seeds.at(tensor.name), first));
    fillRandomRows(random, row, bytes.size() / row.bytes(), bytes.data());
    return Status::ok();
  };
  return shape.writeRows(path, options.threads, fill, options.progress);
}

} // namespace ds4::quant
