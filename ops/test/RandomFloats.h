// RandomFloats.h - reproducible random inputs of tests: a fixed generator, so
// that a failure repeats on every machine (std distributions differ).
#ifndef DS4_OPS_TEST_RANDOMFLOATS_H
#define DS4_OPS_TEST_RANDOMFLOATS_H

#include <cstdint>
#include <vector>

namespace ds4::test {

class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 2 + 1) {}

  uint32_t bits() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  }
  /// In [0, below).
  uint32_t below(uint32_t limit) { return bits() % limit; }
  /// Uniform in [-1, 1), a multiple of 2^-23.
  float uniform() {
    return static_cast<float>(static_cast<int32_t>(bits()) >> 8) * 0x1p-23f;
  }
  /// `count` values of about unit variance times `scale`.
  std::vector<float> floats(uint64_t count, float scale = 1.0f) {
    std::vector<float> values(count);
    for (float &value : values)
      value = (uniform() + uniform() + uniform()) * scale;
    return values;
  }
  std::vector<uint8_t> bytes(uint64_t count) {
    std::vector<uint8_t> values(count);
    for (uint8_t &value : values)
      value = static_cast<uint8_t>(bits() >> 24);
    return values;
  }

private:
  uint64_t state;
};

} // namespace ds4::test

#endif // DS4_OPS_TEST_RANDOMFLOATS_H
