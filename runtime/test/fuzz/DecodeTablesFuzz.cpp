// DecodeTablesFuzz.cpp - any bytes as each kind of decode table: refused with a
// message that names the table, or accepted and then complete. Built as a
// libFuzzer target, and into the unit tests, where the corpus is replayed.
#include "runtime/test/DecodeTableModels.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>

using namespace ds4;

#define DS4_FUZZ_REQUIRE(condition)                                            \
  do {                                                                         \
    if (!(condition)) {                                                        \
      std::fprintf(stderr, "%s:%d: broken: %s\n", __FILE__, __LINE__,          \
                   #condition);                                                \
      std::abort();                                                            \
    }                                                                          \
  } while (false)

static void checkTable(const GgufTensor &tensor, const DecodeTable &table) {
  const uint64_t levels = weightFormatInfo(table.format).bookLevels;
  DS4_FUZZ_REQUIRE(table.format == tensor.format());
  DS4_FUZZ_REQUIRE(table.experts ==
                   (tensor.dims.size() == 3 ? tensor.dims[2] : 1));
  DS4_FUZZ_REQUIRE(table.books.size() == table.experts * 2 * levels);
  DS4_FUZZ_REQUIRE(table.adaptive.size() == table.experts);
  DS4_FUZZ_REQUIRE(table.rotated.size() == table.experts);
  for (uint64_t i = 0; i < table.books.size(); ++i) {
    DS4_FUZZ_REQUIRE(std::isfinite(table.books[i]));
    if (table.adaptive[i / (2 * levels)] && i % levels)
      DS4_FUZZ_REQUIRE(table.books[i] > table.books[i - 1]);
  }
  DS4_FUZZ_REQUIRE(table.int8Books().size() ==
                   table.experts * bookBytes(table.format, /*int8=*/true));
}

static void parseAndCheck(DecodeTableKind kind, std::span<const uint8_t> bytes,
                          const std::vector<GgufTensor> &tensors) {
  const DecodeTableSource source{kind, "K", bytes};
  const auto parse = [&](Rotations rotations) {
    return parseDecodeTables({&source, 1}, tensors, test::kModelLayers, "model",
                             rotations);
  };
  const Result<DecodeTables> strict = parse(Rotations::refuse);
  const Result<DecodeTables> lenient = parse(Rotations::accept);
  for (const Result<DecodeTables> *result : {&strict, &lenient})
    if (!*result)
      DS4_FUZZ_REQUIRE(result->error().text.starts_with("decode table K: "));
  if (!lenient) {
    DS4_FUZZ_REQUIRE(!strict);
    return;
  }
  DS4_FUZZ_REQUIRE(lenient->size() == tensors.size());
  bool rotated = false;
  for (const GgufTensor &tensor : tensors) {
    const auto table = lenient->find(tensor.name);
    DS4_FUZZ_REQUIRE(table != lenient->end());
    checkTable(tensor, table->second);
    for (const uint8_t flag : table->second.rotated)
      rotated |= flag != 0;
  }
  DS4_FUZZ_REQUIRE(bool(strict) == !rotated);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  static const std::vector<GgufTensor> down = test::p4mixModel(),
                                       experts = test::gumixModel(),
                                       dense = test::dmixModel();
  const std::span<const uint8_t> table(data, bytes);
  parseAndCheck(DecodeTableKind::p4mix, table, down);
  parseAndCheck(DecodeTableKind::gumix, table, experts);
  parseAndCheck(DecodeTableKind::dmix, table, dense);
  return 0;
}
