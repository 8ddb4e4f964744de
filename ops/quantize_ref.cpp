// quantize_ref.cpp - oracle of ds4.quantize, and the layout of its result.
#include "ops/Reference.h"
#include "ops/prelude.h"

#include <cassert>
#include <cstring>

namespace ds4::ref {

const int8_t *Q8::codes(uint64_t vector) const {
  return reinterpret_cast<const int8_t *>(bytes.data() +
                                          vector * vectorBytes());
}

float Q8::scale(uint64_t vector, uint64_t block) const {
  float value;
  std::memcpy(&value, bytes.data() + vector * vectorBytes() + width + 4 * block,
              4);
  return value;
}

Q8 quantize(uint64_t width, Floats x) {
  assert(width % 32 == 0 && x.size() % width == 0);
  Q8 result{width, {}};
  result.bytes.resize(x.size() / width * result.vectorBytes());
  for (uint64_t v = 0; v < x.size() / width; ++v) {
    uint8_t *codes = result.bytes.data() + v * result.vectorBytes();
    for (uint64_t b = 0; b < width / 32; ++b) {
      const Floats block = x.subspan(v * width + 32 * b, 32);
      float amax = 0;
      for (float value : block)
        amax = max_abs(amax, value);
      const float scale = amax / 127.0f;
      std::memcpy(codes + width + 4 * b, &scale, 4);
      for (uint64_t i = 0; i < 32; ++i)
        codes[32 * b + i] = static_cast<uint8_t>(int8_code(block[i], scale));
    }
  }
  return result;
}

} // namespace ds4::ref
