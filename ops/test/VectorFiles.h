// VectorFiles.h - reads the files of test vectors (docs/formats.md says where
// they are from).
#ifndef DS4_OPS_TEST_VECTORFILES_H
#define DS4_OPS_TEST_VECTORFILES_H

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace ds4::test {

/// A folder of little-endian arrays without headers.
struct VectorFolder {
  const char *path; ///< below the source root, with a slash at the end

  std::vector<uint8_t> bytes(const std::string &name) const {
    std::ifstream file(std::string(DS4_SOURCE_DIR "/") + path + name,
                       std::ios::binary);
    EXPECT_TRUE(file) << name;
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<float> floats(const std::string &name) const {
    const std::vector<uint8_t> data = bytes(name);
    std::vector<float> values(data.size() / 4);
    std::memcpy(values.data(), data.data(), data.size());
    return values;
  }
  /// bfloat16, widened by hand.
  std::vector<float> bfloats(const std::string &name) const {
    const std::vector<uint8_t> data = bytes(name);
    std::vector<float> values;
    for (size_t i = 0; i < data.size(); i += 2)
      values.push_back(std::bit_cast<float>(
          static_cast<uint32_t>(data[i] << 16 | data[i + 1] << 24)));
    return values;
  }
};

} // namespace ds4::test

#endif // DS4_OPS_TEST_VECTORFILES_H
