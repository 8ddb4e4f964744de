// GgufWriter.h - makes GGUF files (version 3): metadata, then tensors whose
// data are given or produced one after the other, so that memory stays bounded
// by one tensor. What it writes has passed the reader's checks.
#ifndef DS4_RUNTIME_GGUFWRITER_H
#define DS4_RUNTIME_GGUFWRITER_H

#include "runtime/Gguf.h"

#include <functional>
#include <utility>

namespace ds4 {

class GgufWriter {
public:
  /// Takes the next bytes of a tensor.
  using Sink = std::function<Status(std::span<const std::byte>)>;
  /// Gives all bytes of a tensor to `sink`, in any number of pieces, and
  /// passes its errors on.
  using Producer = std::function<Status(const Sink &sink)>;

  /// Sets a metadata value, in place if the key was set before.
  /// "general.alignment" decides the alignment of the data.
  void set(std::string key, GgufValue value);
  /// Sets all metadata of `from`.
  void copyMetadata(const Gguf &from);

  /// Adds a tensor, to be stored in the order of these calls; `dims` fastest
  /// first. Errors: as ggufTensorBytes, or `data` of another size.
  Status addTensor(std::string name, std::vector<uint64_t> dims,
                   WeightFormat format, Producer producer);
  Status addTensor(std::string name, std::vector<uint64_t> dims,
                   WeightFormat format, std::vector<std::byte> data);
  /// Adds a tensor without data, for header(), writeSparse() and writeRows().
  Status declareTensor(std::string name, std::vector<uint64_t> dims,
                       WeightFormat format);

  /// The file up to its data. Errors: what the reader would refuse.
  Result<std::vector<std::byte>> header() const;
  /// Bytes of the whole file.
  Result<uint64_t> fileBytes() const;

  /// Writes the file beside `path` under a temporary name, then renames: there
  /// is never half a file at `path`. Calls each producer once, in order.
  Status write(const std::filesystem::path &path) const;

  /// The same without data: a hole that reads as zeros and takes no room on
  /// disk, whatever the size of the file.
  Status writeSparse(const std::filesystem::path &path) const;

  /// Makes `rows` rows of a tensor of the header, from row `first` on.
  using RowFiller = std::function<Status(
      const GgufTensor &tensor, uint64_t first, std::span<std::byte> rows)>;
  /// The same with data that `fill` makes, a few megabytes at a time and on
  /// `threads` threads (0: one a core): memory stays small, whatever the size
  /// of the file. The cut into pieces depends on the tensors alone. `progress`
  /// is called one at a time, with bytes. Errors besides: the disk has too
  /// little room, found before anything is written.
  Status writeRows(
      const std::filesystem::path &path, unsigned threads,
      const RowFiller &fill,
      const std::function<void(uint64_t done, uint64_t total)> &progress) const;

private:
  struct Entry {
    std::string name;
    std::vector<uint64_t> dims;
    WeightFormat format;
    uint64_t bytes;
    Producer producer; ///< empty: declared only
  };
  struct Layout {
    std::vector<std::byte> header; ///< with its padding
    uint64_t alignment;
    uint64_t fileBytes; ///< the last tensor is padded too, as ggml does
  };
  Result<Layout> layOut() const;
  Status writeFile(const std::filesystem::path &path, bool withData) const;

  std::vector<std::pair<std::string, GgufValue>> pairs;
  std::vector<Entry> tensors;
};

} // namespace ds4

#endif // DS4_RUNTIME_GGUFWRITER_H
