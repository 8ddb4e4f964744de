// FuzzReplayTest.cpp - runs a fuzzer's corpus through its function, so that
// what a fuzzer found once stays fixed in builds without it.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

TEST(FuzzReplay, Corpus) {
  std::vector<std::filesystem::path> inputs;
  for (const auto &entry : std::filesystem::directory_iterator(DS4_FUZZ_CORPUS))
    inputs.push_back(entry.path());
  std::ranges::sort(inputs);
  ASSERT_FALSE(inputs.empty());
  for (const std::filesystem::path &input : inputs) {
    SCOPED_TRACE(input.string());
    std::ifstream in(input, std::ios::binary);
    std::vector<char> bytes(std::istreambuf_iterator<char>(in), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()),
                           bytes.size());
  }
}
