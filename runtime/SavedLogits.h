// SavedLogits.h - the logits of a model over a text, kept in a file, so that
// another model can be compared with it when both do not fit into memory. The
// idea is that of llama.cpp's perplexity tool (--kl-divergence-base): 16 bits a
// logit. Files are read and written a row at a time.
#ifndef DS4_RUNTIME_SAVEDLOGITS_H
#define DS4_RUNTIME_SAVEDLOGITS_H

#include "runtime/TemporaryFile.h"
#include "runtime/TextChunks.h"

#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

namespace ds4 {

class Gguf;

/// What a file begins with.
inline constexpr std::string_view kSavedLogitsMagic = "DS4LOGIT";

/// Whose logits over what.
struct SavedLogitsInfo {
  std::string model;       ///< general.name, for reports
  std::string fingerprint; ///< Gguf::fingerprint()
  std::string tokenizer;   ///< tokenizerHash()
  uint32_t vocab = 0;
  TextChunks chunks; ///< the tokens; leftOut is not kept

  /// Rows of the file: those predictions of each chunk that are counted.
  uint64_t rows() const { return chunks.size() * uint64_t(chunks.counted()); }
};

/// Hash of the vocabulary and its merges. Error: the file has none.
Result<std::string> tokenizerHash(const Gguf &file);

/// The logits of one position.
struct SavedRow {
  /// [vocab], each within half a step of what was saved; a step is the row's
  /// range / 65535.
  std::vector<float> logits;
  uint32_t best = 0; ///< the first of the largest, as it was saved
  double loss = 0;   ///< of the token that followed, in nats, as it was saved
};

class SavedLogitsWriter {
public:
  static Result<SavedLogitsWriter> create(const std::filesystem::path &path,
                                          const SavedLogitsInfo &info);

  /// Adds a row: chunks in order, positions ascending. `loss` is that of the
  /// token that follows. Error: a logit that is not finite.
  Status add(std::span<const float> logits, double loss);
  /// After info.rows() rows; without it there is no file.
  Status finish();

private:
  SavedLogitsWriter(TemporaryFile file, uint32_t vocab, uint64_t rows);

  TemporaryFile file;
  uint32_t vocab;
  uint64_t left; ///< rows to come
};

class SavedLogitsReader {
public:
  /// Errors: not such a file, another version, one that is too short or too
  /// long for what its header says.
  static Result<SavedLogitsReader> open(const std::string &path);

  const SavedLogitsInfo &info() const { return header; }

  /// Whether rows are those of `chunks` of a model with this tokenizer, which
  /// may be fewer than the file has. Error: what differs, and what to do.
  Status check(std::string_view tokenizer, const TextChunks &chunks) const;

  /// The next row. Error: it is damaged, or there is none.
  Result<SavedRow> next();

private:
  SavedLogitsReader(std::ifstream file, std::string path,
                    SavedLogitsInfo header, uint64_t rowsOffset);

  std::ifstream file;
  std::string path;
  SavedLogitsInfo header;
  uint64_t rowsOffset; ///< of the first row in the file
  uint64_t row = 0;    ///< number of the next one
};

} // namespace ds4

#endif // DS4_RUNTIME_SAVEDLOGITS_H
