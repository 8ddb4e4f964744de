// CodeLayout.cpp - see CodeLayout.h.
#include "ops/CodeLayout.h"

#include <algorithm>
#include <cassert>

namespace ds4::ref {

using enum WeightFormat;

static constexpr CodeLayout kLayouts[] = {
#include "ops/WeightLayouts.inc"
};

const CodeLayout &codeLayout(WeightFormat format) {
  const auto *it = std::ranges::find(kLayouts, format, &CodeLayout::format);
  assert(it != std::end(kLayouts) && "not a quantised format");
  return *it;
}

std::array<uint32_t, 32> CodeLayout::read(const uint8_t *block,
                                          uint32_t first) const {
  std::array<uint32_t, 32> codes{};
  uint32_t done = 0;
  for (const CodePlane &plane : planes) {
    if (plane.bits == 0)
      break;
    const uint32_t mask = (1u << plane.bits) - 1;
    const uint8_t *bytes = block + plane.offset;
    // Of a period; a power of two.
    const uint32_t bytesOf = plane.period * plane.bits / 8;
    if (plane.period > 1)
      bytes += first / plane.period * bytesOf;
    for (uint32_t i = 0; i < 32; ++i) {
      uint32_t code;
      if (plane.period == 0) {
        const uint32_t bit = (first + i) * plane.bits, shift = bit % 8;
        code = bytes[bit / 8] >> shift;
        if (shift + plane.bits > 8)
          code |= static_cast<uint32_t>(bytes[bit / 8 + 1]) << (8 - shift);
      } else if (plane.period == 1) {
        code = bytes[first + i];
      } else {
        const uint32_t at = first % plane.period + i;
        code = bytes[at % bytesOf] >> (plane.bits * (at / bytesOf));
      }
      codes[i] |= (code & mask) << done;
    }
    done += plane.bits;
  }
  return codes;
}

void CodeLayout::put(uint8_t *block, uint32_t element, uint32_t code) const {
  for (const CodePlane &plane : planes) {
    if (plane.bits == 0)
      break;
    const uint32_t part = code & ((1u << plane.bits) - 1);
    code >>= plane.bits;
    uint8_t *bytes = block + plane.offset;
    if (plane.period == 0) {
      const uint32_t bit = element * plane.bits, shift = bit % 8;
      bytes[bit / 8] |= static_cast<uint8_t>(part << shift);
      if (shift + plane.bits > 8)
        bytes[bit / 8 + 1] |= static_cast<uint8_t>(part >> (8 - shift));
      continue;
    }
    const uint32_t bytesOf = plane.period * plane.bits / 8;
    const uint32_t at = element % plane.period;
    bytes[element / plane.period * bytesOf + at % bytesOf] |=
        static_cast<uint8_t>(part << (plane.bits * (at / bytesOf)));
  }
}

int CodeLayout::level(uint32_t code) const {
  const auto number = static_cast<int>(code);
  if (codes == Codes::table)
    return levels[code];
  if (codes == Codes::signMagnitude) {
    const int sign = 1 << (bits() - 1);
    return number & sign ? -(number - sign) : number;
  }
  assert(codes == Codes::integers);
  return bits() == 8 ? static_cast<int8_t>(code) : number - zero;
}

} // namespace ds4::ref
