// Statistics of inputs: both forms of files, the GGUF form as
// runtime/ImportanceMatrix.h writes it.
#include "quant/Imatrix.h"

#include "runtime/GgufWriter.h"
#include "runtime/ImportanceMatrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>

using namespace ds4;
using namespace ds4::quant;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace {

class ImatrixTest : public testing::Test {
protected:
  std::string path = testing::TempDir() + "/imatrix_test.imatrix";

  void put(std::string &bytes, int32_t value) const {
    bytes.append(reinterpret_cast<const char *>(&value), 4);
  }
  /// One entry "w" of `calls` calls with these sums.
  std::string legacy(int32_t calls, const std::vector<float> &values) const {
    std::string bytes;
    put(bytes, 1);
    put(bytes, 1);
    bytes += "w";
    put(bytes, calls);
    put(bytes, static_cast<int32_t>(values.size()));
    bytes.append(reinterpret_cast<const char *>(values.data()),
                 4 * values.size());
    return bytes;
  }
  void save(const std::string &bytes) const {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  std::string openError() const {
    const Result<Imatrix> imatrix = Imatrix::open(path);
    return imatrix ? "" : imatrix.error().text;
  }
};

TEST_F(ImatrixTest, ReadsTheLegacyForm) {
  save(legacy(2, {2, 4, 6, 8}));
  const Result<Imatrix> imatrix = Imatrix::open(path);
  ASSERT_TRUE(imatrix) << imatrix.error().text;
  const auto stats = imatrix->statistics("w", 2, 2);
  ASSERT_TRUE(stats && *stats);
  EXPECT_THAT((*stats)->importance(0), ElementsAre(1, 2));
  EXPECT_THAT((*stats)->importance(1), ElementsAre(3, 4));
  EXPECT_EQ((*stats)->block, 0u);

  const auto absent = imatrix->statistics("v", 2, 2);
  ASSERT_TRUE(absent);
  EXPECT_FALSE(*absent);
  const auto wrong = imatrix->statistics("w", 3, 2);
  ASSERT_FALSE(wrong);
  EXPECT_THAT(wrong.error().text, HasSubstr("4 values"));
}

TEST_F(ImatrixTest, RefusesDamagedLegacyFiles) {
  const std::string good = legacy(2, {2, 4, 6, 8});
  for (size_t length :
       {size_t{0}, size_t{3}, size_t{8}, size_t{14}, good.size() - 1}) {
    save(good.substr(0, length));
    EXPECT_NE(openError(), "") << length;
  }
  save(legacy(2, {}));
  EXPECT_THAT(openError(), HasSubstr("0 values"));
  std::string huge = legacy(2, {1});
  huge[16] = 0x7f; // top byte of the number of values
  save(huge);
  EXPECT_THAT(openError(), HasSubstr("entry 0"));
}

TEST_F(ImatrixTest, ReadsBackWhatWasCollected) {
  ImportanceMatrix collected(2);
  Observation it;
  it.weight = "w";
  it.width = 3;
  it.rowElements = 3;
  it.experts = 2;
  it.used = 1;
  collected.add(it, std::vector<float>{1, 2, 3, 4, 5, 6},
                std::vector<int32_t>{1, 1});
  ASSERT_TRUE(collected.write(path, {}));

  const Result<Imatrix> imatrix = Imatrix::open(path);
  ASSERT_TRUE(imatrix) << imatrix.error().text;
  const auto found = imatrix->statistics("w", 3, 2);
  ASSERT_TRUE(found && *found);
  const InputStatistics &stats = **found;
  EXPECT_THAT(stats.counts, ElementsAre(0, 2));
  EXPECT_THAT(stats.importance(0), IsEmpty());
  EXPECT_THAT(stats.importance(1), ElementsAre(8.5f, 14.5f, 22.5f));
  ASSERT_EQ(stats.block, 2u);
  const auto unseen = imatrix->moments("w", stats, 0);
  const auto seen = imatrix->moments("w", stats, 1);
  ASSERT_TRUE(unseen && seen);
  EXPECT_THAT(*unseen, ElementsAre(0, 0, 0, 0, 0, 0));
  // Columns 0 and 1 share a block, column 2 is alone in a cut one.
  EXPECT_THAT(*seen, ElementsAre(17, 22, 22, 29, 45, 0));
  const auto never = imatrix->statistics("never", 3, 1);
  ASSERT_TRUE(never);
  EXPECT_FALSE(*never);
  EXPECT_FALSE(imatrix->statistics("w", 4, 2));
}

TEST_F(ImatrixTest, OneCountMayStandForAllMatrices) {
  GgufWriter writer;
  const auto bytes = [](std::vector<float> values) {
    std::vector<std::byte> result(4 * values.size());
    std::memcpy(result.data(), values.data(), result.size());
    return result;
  };
  ASSERT_TRUE(
      writer.addTensor("w.in_sum2", {1, 2}, WeightFormat::f32, bytes({8, 4})));
  ASSERT_TRUE(writer.addTensor("w.counts", {1}, WeightFormat::f32, bytes({4})));
  ASSERT_TRUE(writer.write(path));
  const Result<Imatrix> imatrix = Imatrix::open(path);
  ASSERT_TRUE(imatrix);
  const auto stats = imatrix->statistics("w", 1, 2);
  ASSERT_TRUE(stats && *stats);
  EXPECT_THAT((*stats)->importance(0), ElementsAre(2));
  EXPECT_THAT((*stats)->importance(1), ElementsAre(1));
}

} // namespace
