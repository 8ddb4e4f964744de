// GgufWriter.cpp - encodes a header, has the reader check it, then streams the
// data. The checks are the reader's, so that the two cannot disagree.
#include "runtime/GgufWriter.h"

#include "runtime/ParallelWork.h"
#include "runtime/TemporaryFile.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>

namespace ds4 {

namespace {

/// Appends numbers and texts as GGUF stores them.
class Encoder {
public:
  std::vector<std::byte> bytes;

  void raw(const void *from, size_t count) {
    auto *begin = static_cast<const std::byte *>(from);
    bytes.insert(bytes.end(), begin, begin + count);
  }
  template <typename T> void put(T value) { raw(&value, sizeof(T)); }
  void text(std::string_view value) {
    put<uint64_t>(value.size());
    raw(value.data(), value.size());
  }
  /// `value` without its type.
  void value(const GgufValue &value) {
    if (value.isArray())
      return array(value);
    if (const std::string *string = value.asString())
      return text(*string);
    const uint64_t bits = value.scalarBits();
    raw(&bits, ggufTypeBytes(value.type()));
  }

private:
  void array(const GgufValue &value) {
    put(value.elementType());
    put(value.size());
    if (auto packed = value.packed())
      raw(packed->data(), packed->size());
    else if (auto strings = value.strings())
      for (const std::string &string : *strings)
        text(string);
    else if (auto arrays = value.arrays())
      for (const GgufValue &inner : *arrays)
        array(inner);
  }
};

} // namespace

static uint64_t alignUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

void GgufWriter::set(std::string key, GgufValue value) {
  auto it =
      std::ranges::find(pairs, key, &std::pair<std::string, GgufValue>::first);
  if (it != pairs.end())
    it->second = std::move(value);
  else
    pairs.emplace_back(std::move(key), std::move(value));
}

void GgufWriter::copyMetadata(const Gguf &from) {
  for (const std::string &key : from.keys())
    set(key, *from.find(key));
}

Status GgufWriter::addTensor(std::string name, std::vector<uint64_t> dims,
                             WeightFormat format, Producer producer) {
  DS4_TRY(declareTensor(std::move(name), std::move(dims), format));
  tensors.back().producer = std::move(producer);
  return Status::ok();
}

Status GgufWriter::addTensor(std::string name, std::vector<uint64_t> dims,
                             WeightFormat format, std::vector<std::byte> data) {
  DS4_ASSIGN(const uint64_t expected,
             ggufTensorBytes(name, dims, weightFormatInfo(format).typeId));
  if (data.size() != expected)
    return invalidInput(fmt::format("tensor {}: got {} bytes of data, but its "
                                    "shape and format need {}",
                                    ggufQuoted(name), data.size(), expected));
  return addTensor(
      std::move(name), std::move(dims), format,
      [data = std::move(data)](const Sink &sink) { return sink(data); });
}

Status GgufWriter::declareTensor(std::string name, std::vector<uint64_t> dims,
                                 WeightFormat format) {
  DS4_ASSIGN(const uint64_t bytes,
             ggufTensorBytes(name, dims, weightFormatInfo(format).typeId));
  tensors.push_back({std::move(name), std::move(dims), format, bytes, {}});
  return Status::ok();
}

Result<GgufWriter::Layout> GgufWriter::layOut() const {
  Layout layout{{}, kGgufDefaultAlignment, 0};
  Encoder encoder;
  encoder.raw("GGUF", 4);
  encoder.put<uint32_t>(3);
  encoder.put<uint64_t>(tensors.size());
  encoder.put<uint64_t>(pairs.size());
  for (const auto &[key, value] : pairs) {
    encoder.text(key);
    encoder.put(value.type());
    encoder.value(value);
    // An alignment that is none is left for the reader to refuse.
    if (key == "general.alignment" && value.type() == GgufType::uint32 &&
        ggufAlignmentIsValid(value.scalarBits()))
      layout.alignment = value.scalarBits();
  }

  uint64_t offset = 0;
  for (const Entry &tensor : tensors) {
    encoder.text(tensor.name);
    encoder.put(static_cast<uint32_t>(tensor.dims.size()));
    for (uint64_t dim : tensor.dims)
      encoder.put(dim);
    encoder.put(weightFormatInfo(tensor.format).typeId);
    encoder.put(offset);
    // Files end below 2^63, so that sums of two such sizes cannot wrap.
    if (tensor.bytes > INT64_MAX / 2 || offset > INT64_MAX / 2)
      return invalidInput(fmt::format("tensor {}: its data end beyond the "
                                      "largest size of a file",
                                      ggufQuoted(tensor.name)));
    offset = alignUp(offset + tensor.bytes, layout.alignment);
  }
  layout.header = std::move(encoder.bytes);
  layout.header.resize(alignUp(layout.header.size(), layout.alignment));
  layout.fileBytes = layout.header.size() + offset;
  DS4_TRY(Gguf::parse(layout.header, layout.fileBytes, "GGUF to write"));
  return layout;
}

Result<std::vector<std::byte>> GgufWriter::header() const {
  DS4_ASSIGN(Layout layout, layOut());
  return std::move(layout.header);
}

Result<uint64_t> GgufWriter::fileBytes() const {
  DS4_ASSIGN(const Layout layout, layOut());
  return layout.fileBytes;
}

Status GgufWriter::write(const std::filesystem::path &path) const {
  return writeFile(path, /*withData=*/true);
}

Status GgufWriter::writeSparse(const std::filesystem::path &path) const {
  return writeFile(path, /*withData=*/false);
}

Status GgufWriter::writeFile(const std::filesystem::path &path,
                             bool withData) const {
  DS4_ASSIGN(const Layout layout, layOut());
  DS4_ASSIGN(TemporaryFile file, TemporaryFile::create(path));
  DS4_TRY(file.append(layout.header));
  if (!withData) {
    DS4_TRY(file.extend(layout.fileBytes));
    return file.commit();
  }

  const std::vector<std::byte> zeros(layout.alignment);
  for (const Entry &tensor : tensors) {
    if (!tensor.producer)
      return invalidInput(fmt::format("tensor {} was declared without data",
                                      ggufQuoted(tensor.name)));
    auto wrongSize = [&](std::string_view found) {
      return invalidInput(fmt::format("tensor {}: its producer gave {} bytes, "
                                      "but its shape and format need {}",
                                      ggufQuoted(tensor.name), found,
                                      tensor.bytes));
    };
    uint64_t done = 0;
    DS4_TRY(tensor.producer([&](std::span<const std::byte> bytes) -> Status {
      if (bytes.size() > tensor.bytes - done)
        return wrongSize("more");
      done += bytes.size();
      return file.append(bytes);
    }));
    if (done != tensor.bytes)
      return wrongSize(fmt::format("{}", done));
    const uint64_t padding = alignUp(done, layout.alignment) - done;
    DS4_TRY(file.append(std::span(zeros).first(padding)));
  }
  return file.commit();
}

static Status checkRoom(const std::filesystem::path &path, uint64_t bytes) {
  const std::filesystem::path folder =
      path.has_parent_path() ? path.parent_path() : ".";
  std::error_code code;
  const auto room = std::filesystem::space(folder, code);
  if (code || room.available >= bytes)
    return Status::ok(); // creating the file says what is wrong
  return ioError(fmt::format("{} needs {} bytes, but {} has room for {}: free "
                             "some or write to another disk",
                             path.string(), bytes, folder.string(),
                             room.available));
}

Status GgufWriter::writeRows(
    const std::filesystem::path &path, unsigned threads, const RowFiller &fill,
    const std::function<void(uint64_t done, uint64_t total)> &progress) const {
  constexpr uint64_t kPieceBytes = uint64_t(4) << 20;
  struct Piece {
    const GgufTensor *tensor;
    uint64_t first, rows;
  };
  DS4_ASSIGN(const Layout layout, layOut());
  DS4_ASSIGN(const Gguf gguf,
             Gguf::parse(layout.header, layout.fileBytes, path.string()));
  DS4_TRY(checkRoom(path, layout.fileBytes));
  std::vector<Piece> pieces;
  uint64_t total = 0;
  for (const GgufTensor &tensor : gguf.tensors()) {
    const uint64_t rows = tensor.rows(), rowBytes = tensor.bytes / rows;
    const uint64_t most = std::max<uint64_t>(1, kPieceBytes / rowBytes);
    for (uint64_t first = 0; first < rows; first += most)
      pieces.push_back({&tensor, first, std::min(most, rows - first)});
    total += tensor.bytes;
  }
  DS4_ASSIGN(TemporaryFile file, TemporaryFile::create(path));
  DS4_TRY(file.append(layout.header));
  DS4_TRY(file.extend(layout.fileBytes));
  std::atomic<uint64_t> done = 0;
  DS4_TRY(workInParallel(
      threads, pieces.size(),
      [&](size_t i) -> Status {
        const auto &[tensor, first, rows] = pieces[i];
        const uint64_t rowBytes = tensor->bytes / tensor->rows();
        thread_local std::vector<std::byte> bytes;
        bytes.resize(rows * rowBytes);
        DS4_TRY(fill(*tensor, first, bytes));
        DS4_TRY(file.writeAt(tensor->fileOffset + first * rowBytes, bytes));
        done += bytes.size();
        return Status::ok();
      },
      [&](size_t, size_t) {
        if (progress)
          progress(done, total);
      }));
  return file.commit();
}

} // namespace ds4
