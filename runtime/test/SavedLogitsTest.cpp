// Saved logits: what is read is what was written, to half a step; files that
// are damaged or of something else are refused with a sentence.
#include "runtime/Evaluation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <unistd.h>

namespace ds4 {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocab = 51; // odd: rows are padded

class SavedLogits : public testing::Test {
protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() /
           fmt::format("saved_logits_test_{}", ::getpid());
    info.model = "a model";
    info.fingerprint = std::string(32, 'f');
    info.tokenizer = std::string(32, 'a');
    info.vocab = kVocab;
    info.chunks.length = 7; // 3 rows a chunk
    for (int i = 0; i < 14; ++i)
      info.chunks.ids.push_back(i);
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 5);
    for (int row = 0; row < 6; ++row) {
      rows.emplace_back(kVocab);
      std::ranges::generate(rows.back(), [&] { return normal(random); });
    }
    rows[4].assign(kVocab, 0.25f); // no range
  }
  void TearDown() override { std::filesystem::remove(path); }

  void write() {
    Result<SavedLogitsWriter> writer = SavedLogitsWriter::create(path, info);
    ASSERT_TRUE(writer) << writer.error().text;
    for (size_t i = 0; i < rows.size(); ++i)
      ASSERT_TRUE(writer->add(rows[i], 0.1 * static_cast<double>(i)));
    ASSERT_TRUE(writer->finish());
  }
  std::vector<char> fileBytes() {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  /// The error of opening the file after `change` to its bytes.
  template <typename Change> std::string errorAfter(Change change) {
    write();
    std::vector<char> bytes = fileBytes();
    change(bytes);
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    Result<SavedLogitsReader> reader = SavedLogitsReader::open(path);
    return reader ? "" : reader.error().text;
  }
  std::string checkError(const std::string &tokenizer,
                         const TextChunks &chunks) {
    Result<SavedLogitsReader> reader = SavedLogitsReader::open(path);
    EXPECT_TRUE(reader) << reader.error().text;
    const Status status = reader->check(tokenizer, chunks);
    return status ? "" : status.error().text;
  }

  std::string path;
  SavedLogitsInfo info;
  std::vector<std::vector<float>> rows;
};

TEST_F(SavedLogits, RowsComeBack) {
  write();
  Result<SavedLogitsReader> reader = SavedLogitsReader::open(path);
  ASSERT_TRUE(reader) << reader.error().text;
  EXPECT_EQ(reader->info().model, "a model");
  EXPECT_EQ(reader->info().fingerprint, info.fingerprint);
  EXPECT_EQ(reader->info().chunks.ids, info.chunks.ids);
  EXPECT_TRUE(reader->check(info.tokenizer, info.chunks));
  for (size_t i = 0; i < rows.size(); ++i) {
    Result<SavedRow> row = reader->next();
    ASSERT_TRUE(row) << row.error().text;
    EXPECT_EQ(row->loss, 0.1 * static_cast<double>(i));
    const auto [least, most] = std::ranges::minmax(rows[i]);
    EXPECT_EQ(row->best, std::ranges::max_element(rows[i]) - rows[i].begin());
    for (uint32_t k = 0; k < kVocab; ++k)
      EXPECT_NEAR(row->logits[k], rows[i][k],
                  0.51f * (most - least) / 65535 + 1e-6f);
    // From the row itself, 16 bits are far by the square of a step.
    LogitComparison comparison;
    comparison.add(row->logits, row->best, rows[i]);
    EXPECT_LT(std::abs(comparison.meanKl()), 1e-7);
  }
  EXPECT_FALSE(reader->next());
}

TEST_F(SavedLogits, WithoutFinishThereIsNoFile) {
  {
    Result<SavedLogitsWriter> writer = SavedLogitsWriter::create(path, info);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->add(rows[0], 1));
  }
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(SavedLogits, LogitsMustBeFinite) {
  Result<SavedLogitsWriter> writer = SavedLogitsWriter::create(path, info);
  ASSERT_TRUE(writer);
  for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    rows[0][7] = bad;
    const Status status = writer->add(rows[0], 1);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().text, "a logit is not finite and cannot be saved");
  }
}

TEST_F(SavedLogits, RefusesWhatItWasNotSavedOver) {
  write();
  EXPECT_EQ(checkError(info.tokenizer, info.chunks), "");
  EXPECT_THAT(checkError(std::string(32, 'b'), info.chunks),
              HasSubstr(" holds logits of model 'a model' with another "
                        "vocabulary: "));
  TextChunks chunks = info.chunks;
  chunks.ids.resize(7); // fewer chunks are a part of the file
  EXPECT_EQ(checkError(info.tokenizer, chunks), "");
  chunks.ids[5] = 40;
  EXPECT_THAT(checkError(info.tokenizer, chunks),
              HasSubstr("over another text: token 5 of the chunks is 5, here "
                        "it is 40"));
  chunks = info.chunks;
  chunks.ids.resize(21);
  EXPECT_THAT(checkError(info.tokenizer, chunks),
              HasSubstr("over 2 chunks, the text has 3: use --chunks=2"));
  chunks.length = 3;
  EXPECT_THAT(checkError(info.tokenizer, chunks),
              HasSubstr("over chunks of 7 tokens, here they have 3: use "
                        "--chunk-size=7"));
}

TEST_F(SavedLogits, RefusesDamagedFiles) {
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes[0] = 'X'; }),
              HasSubstr("these are no saved logits"));
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes[8] = 9; }),
              HasSubstr("they have version 9, this program reads 1"));
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes.resize(20); }),
              HasSubstr("the file ends inside its header"));
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes.resize(120); }),
              HasSubstr("the file ends inside its header"));
  // Sizes that must not be believed: logits a row, tokens, chunks, the name.
  for (size_t at : {15, 19, 23, 27})
    EXPECT_THAT(errorAfter([at](auto &bytes) { bytes[at] = 0x7f; }),
                HasSubstr("the header is damaged: "))
        << at;
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes[110] ^= 1; }),
              HasSubstr("the header is damaged"));
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes.pop_back(); }),
              HasSubstr("bytes where its header promises"));
  EXPECT_THAT(errorAfter([](auto &bytes) { bytes.push_back(0); }),
              HasSubstr("bytes where its header promises"));
}

TEST_F(SavedLogits, ADamagedRowIsNamed) {
  EXPECT_EQ(errorAfter([](auto &bytes) { bytes[bytes.size() - 40] ^= 1; }), "");
  Result<SavedLogitsReader> reader = SavedLogitsReader::open(path);
  ASSERT_TRUE(reader);
  for (int i = 0; i < 5; ++i)
    EXPECT_TRUE(reader->next());
  Result<SavedRow> last = reader->next();
  ASSERT_FALSE(last);
  EXPECT_THAT(last.error().text, HasSubstr("row 5 of saved logits at byte "));
}

} // namespace
} // namespace ds4
