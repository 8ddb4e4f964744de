// WeightCheck.cpp - the loops first ask "is anything wrong in these blocks"
// without branches, so that checking keeps up with the disk, and look for the
// culprit only then.
#include "runtime/WeightCheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <type_traits>

namespace ds4 {
namespace {

/// Largest valid UE4M3 scale byte.
constexpr uint8_t kLargestScale = 0x7e;
/// Largest exponent byte of MXFP4 whose values, up to 12 * 2^(e - 128), are
/// finite.
constexpr uint8_t kLargestExponent = 252;
/// Type 107 is refused as affine above this share of blocks with byte 9 >
/// byte 8: 0.52 of unequal pairs in dual files, 0.86 in affine ones
/// (docs/formats.md); fewer blocks than kAffineSample say nothing.
constexpr double kAffineShare = 0.7;
constexpr uint64_t kAffineSample = 256;

constexpr std::string_view kDamaged = "the file is damaged, download it again";

uint16_t load16(const uint8_t *at) {
  uint16_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

uint32_t load32(const uint8_t *at) {
  uint32_t value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool badF16(uint16_t bits) { return (bits & 0x7c00) == 0x7c00; }
bool badBf16(uint16_t bits) { return (bits & 0x7f80) == 0x7f80; }
bool badF32(uint32_t bits) { return (bits & 0x7f800000) == 0x7f800000; }

/// Whether the format is a reading of type 107.
bool isFp2(WeightFormat format) { return !fp2ReadingName(format).empty(); }

/// Index of the first of `count` blocks, `stride` bytes apart, for which
/// `bad(block)` holds. A stride that is a constant lets the loop be vectorised.
template <typename Stride, typename Bad>
std::optional<uint64_t> firstBad(const uint8_t *data, uint64_t count,
                                 Stride stride, Bad bad) {
  constexpr uint64_t kBatch = 4096;
  for (uint64_t begin = 0; begin < count; begin += kBatch) {
    uint64_t end = std::min(count, begin + kBatch);
    uint32_t any = 0;
    for (uint64_t i = begin; i < end; ++i)
      any |= static_cast<uint32_t>(bad(data + i * stride));
    if (!any)
      continue;
    for (uint64_t i = begin; i < end; ++i)
      if (bad(data + i * stride))
        return i;
  }
  return std::nullopt;
}

} // namespace

WeightCheck::WeightCheck(const WeightDesc &desc, uint64_t fileOffset,
                         std::span<const uint8_t> modes)
    : desc(desc), info(weightFormatInfo(desc.format)), fileOffset(fileOffset),
      modes(modes) {}

Status WeightCheck::check(std::span<const std::byte> bytes, uint64_t first) {
  const uint64_t count = bytes.size() / info.blockBytes;
  DS4_TRY(checkBlocks(reinterpret_cast<const uint8_t *>(bytes.data()), first,
                      count));
  const uint64_t all = desc.bytes / info.blockBytes;
  return (blocksSeen += count) == all ? checkReading() : Status::ok();
}

Status WeightCheck::checkBlocks(const uint8_t *data, uint64_t first,
                                uint64_t count) {
  if (isFp2(desc.format))
    countAffine(data, count);
  switch (info.scaleKind) {
  case ScaleKind::none:
    return desc.format == WeightFormat::i32 ? checkTable(data, first, count)
                                            : checkFloats(data, first, count);
  case ScaleKind::f16:
    return checkF16Scales(data, first, count);
  case ScaleKind::ue4m3:
    return checkScaleBytes(data, first, count, /*selectorBit=*/false);
  case ScaleKind::ue4m3Sign:
    return checkScaleBytes(data, first, count, /*selectorBit=*/true);
  case ScaleKind::ue4m3Book:
    return checkMix(data, first, count);
  case ScaleKind::e8m0:
    return checkExponents(data, first, count);
  }
  return Status::ok();
}

Status WeightCheck::checkFloats(const uint8_t *data, uint64_t first,
                                uint64_t count) {
  std::optional<uint64_t> bad;
  if (desc.format == WeightFormat::f32)
    bad = firstBad(data, count, std::integral_constant<uint64_t, 4>(),
                   [](const uint8_t *at) { return badF32(load32(at)); });
  else if (desc.format == WeightFormat::f16)
    bad = firstBad(data, count, std::integral_constant<uint64_t, 2>(),
                   [](const uint8_t *at) { return badF16(load16(at)); });
  else
    bad = firstBad(data, count, std::integral_constant<uint64_t, 2>(),
                   [](const uint8_t *at) { return badBf16(load16(at)); });
  if (!bad)
    return Status::ok();
  const uint64_t stride = info.blockBytes;
  const uint8_t *at = data + *bad * stride;
  return invalidInput(fmt::format(
      "tensor `{}`: element {} is not finite (0x{:0{}x}) at file offset {}; {}",
      desc.name, first + *bad, stride == 4 ? load32(at) : load16(at),
      stride * 2, fileOffset + (first + *bad) * stride, kDamaged));
}

Status WeightCheck::checkF16Scales(const uint8_t *data, uint64_t first,
                                   uint64_t count) {
  const uint64_t stride = info.blockBytes;
  for (uint32_t scale = 0; scale < info.scaleCount; ++scale) {
    const uint64_t at = info.scaleOffset + 2 * scale;
    const auto bad = firstBad(data, count, stride, [at](const uint8_t *block) {
      return badF16(load16(block + at));
    });
    if (bad)
      return invalidInput(fmt::format(
          "tensor `{}`: block {} has the scale 0x{:04x}, which is not finite, "
          "at file offset {}; {}",
          desc.name, first + *bad, load16(data + *bad * stride + at),
          fileOffset + (first + *bad) * stride + at, kDamaged));
  }
  return Status::ok();
}

Status WeightCheck::checkExponents(const uint8_t *data, uint64_t first,
                                   uint64_t count) {
  const uint64_t stride = info.blockBytes, at = info.scaleOffset;
  const auto bad = firstBad(data, count, stride, [at](const uint8_t *block) {
    return block[at] > kLargestExponent;
  });
  if (!bad)
    return Status::ok();
  return invalidInput(fmt::format(
      "tensor `{}`: block {} has the exponent byte {} at file offset {}, whose "
      "values are not finite; {}",
      desc.name, first + *bad, data[*bad * stride + at],
      fileOffset + (first + *bad) * stride + at, kDamaged));
}

Status WeightCheck::checkScaleBytes(const uint8_t *data, uint64_t first,
                                    uint64_t count, bool selectorBit) {
  uint32_t at = info.scaleOffset, last = at + info.scaleCount - 1;
  uint8_t mask = selectorBit ? 0x7f : 0xff;
  auto bad =
      firstBad(data, count, info.blockBytes, [=](const uint8_t *block) -> bool {
        return ((block[at] & mask) > kLargestScale) |
               ((block[last] & mask) > kLargestScale);
      });
  if (!bad)
    return Status::ok();
  const uint8_t *block = data + *bad * info.blockBytes;
  uint32_t culprit = (block[at] & mask) > kLargestScale ? at : last;
  uint64_t offset = fileOffset + (first + *bad) * info.blockBytes + culprit;
  if (selectorBit)
    return invalidInput(fmt::format(
        "tensor `{}`: block {} has scale byte 0x{:02x} at file offset {}; its "
        "low 7 bits must be 0x00..0x7e ({})",
        desc.name, first + *bad, block[culprit], offset, kDamaged));
  bool variants = isFp2(desc.format);
  return invalidInput(fmt::format(
      "tensor `{}`: block {} has scale byte 0x{:02x} at file offset {}; valid "
      "bytes are 0x00..0x7e ({}{})",
      desc.name, first + *bad, block[culprit], offset, kDamaged,
      variants ? ", or type 107 was written in another variant: ds4c --fp2"
               : ""));
}

Status WeightCheck::checkMix(const uint8_t *data, uint64_t first,
                             uint64_t count) {
  if (modes.empty())
    return checkScaleBytes(data, first, count, /*selectorBit=*/true);
  // Runs of blocks of one expert share a mode.
  uint64_t perExpert = desc.bytes / info.blockBytes / modes.size();
  for (uint64_t done = 0; done < count;) {
    uint64_t expert = (first + done) / perExpert;
    uint64_t run =
        std::min(count - done, (expert + 1) * perExpert - (first + done));
    DS4_TRY(checkScaleBytes(data + done * info.blockBytes, first + done, run,
                            /*selectorBit=*/modes[expert] != 0));
    done += run;
  }
  return Status::ok();
}

Status WeightCheck::checkTable(const uint8_t *data, uint64_t first,
                               uint64_t count) {
  uint32_t limit = desc.valueLimit;
  if (limit == 0)
    return Status::ok();
  // As unsigned, a negative value is above every limit.
  auto bad = firstBad(data, count, 4, [limit](const uint8_t *at) {
    return load32(at) >= limit;
  });
  if (!bad)
    return Status::ok();
  uint64_t element = first + *bad;
  return invalidInput(fmt::format(
      "tensor `{}`: row {} names expert {} at file offset {}, the model has "
      "experts 0..{}; {}",
      desc.name, element / static_cast<uint64_t>(desc.shape.back()),
      static_cast<int32_t>(load32(data + *bad * 4)), fileOffset + element * 4,
      limit - 1, kDamaged));
}

void WeightCheck::countAffine(const uint8_t *data, uint64_t count) {
  // In fp2s bit 7 is a sign.
  const uint8_t mask = info.scaleKind == ScaleKind::ue4m3Sign ? 0x7f : 0xff;
  uint64_t above = 0;
  for (uint64_t i = 0; i < count; ++i)
    above += (data[i * 10 + 9] & mask) > (data[i * 10 + 8] & mask);
  offsetAboveScale += above;
}

Status WeightCheck::checkReading() const {
  if (!isFp2(desc.format) || blocksSeen < kAffineSample)
    return Status::ok();
  const bool selected = desc.format == WeightFormat::q2_0_rocmfp2_affine;
  const bool looks = static_cast<double>(offsetAboveScale.load()) >
                     kAffineShare * static_cast<double>(blocksSeen.load());
  if (looks == selected)
    return Status::ok();
  return invalidInput(fmt::format(
      "tensor `{}` at file offset {}: scale bytes look like {} layout but the "
      "{} layout was selected (second byte above the first in {} of {} "
      "blocks); compile again with --fp2={}, or use a file of type 107 in the "
      "dual variant",
      desc.name, fileOffset, looks ? "the affine" : "a dual",
      fp2ReadingName(desc.format), offsetAboveScale.load(), blocksSeen.load(),
      looks ? "affine" : "dual"));
}

} // namespace ds4
