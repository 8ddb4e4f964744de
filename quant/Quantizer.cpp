// Quantizer.cpp - reads pieces of rows, encodes them on all threads, hands
// them to the writer. Sums of reports run over rows in order, so that a report
// does not depend on the number of threads.
#include "quant/Quantizer.h"

#include "ops/Reference.h"
#include "quant/Encoders.h"
#include "quant/Parallel.h"
#include "runtime/GgufWriter.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>

namespace ds4::quant {

static constexpr uint64_t kPieceElements = 1 << 22;

namespace {

/// A tensor's way from file to file.
class TensorJob {
public:
  TensorJob(const Gguf &in, const GgufTensor &tensor,
            const QuantizeOptions &options, uint64_t doneBefore,
            TensorReport &report)
      : in(in), tensor(tensor), options(options), done(doneBefore),
        report(report) {}

  Status run(const GgufWriter::Sink &sink) {
    std::ifstream file(in.path(), std::ios::binary);
    file.seekg(static_cast<std::streamoff>(tensor.fileOffset));
    const uint64_t columns = tensor.dims[0], rows = tensor.rows();
    const uint64_t rowBytes = weightRowBytes(report.from, columns);
    const uint64_t pieceRows = std::max<uint64_t>(kPieceElements / columns, 1);
    for (uint64_t first = 0; first < rows; first += pieceRows) {
      const uint64_t count = std::min(pieceRows, rows - first);
      source.resize(count * rowBytes);
      if (!file.read(reinterpret_cast<char *>(source.data()),
                     static_cast<std::streamsize>(source.size())))
        return ioError(fmt::format("cannot read tensor {} of {}",
                                   ggufQuoted(tensor.name), in.path()));
      DS4_TRY(encode(count));
      DS4_TRY(sink(std::as_bytes(std::span(target))));
      done += count * columns;
      if (options.progress)
        options.progress(done, tensor.name);
    }
    return Status::ok();
  }

private:
  /// Fills `target` from the rows in `source`.
  Status encode(uint64_t count) {
    const uint64_t columns = tensor.dims[0];
    if (report.from == report.to) {
      target = source;
      return Status::ok();
    }
    const ref::Weight from{report.from, source, columns};
    const uint64_t rowBytes = weightRowBytes(report.to, columns);
    target.resize(count * rowBytes);
    std::vector<RowResult> results(count);
    parallelFor(count, options.threads, [&](uint64_t i) {
      const std::vector<float> row = ref::weightRow(from, i);
      for (const float x : row)
        results[i].finite &= std::isfinite(x);
      if (!results[i].finite)
        return;
      const std::span<uint8_t> out(target.data() + i * rowBytes, rowBytes);
      encodeRow(report.to, row, {}, out.data());
      if (options.measure)
        measure(row, out, results[i]);
    });
    for (const RowResult &result : results) {
      if (!result.finite)
        return invalidInput(
            fmt::format("{}: tensor {} has a value that is not finite; no "
                        "quantised format can hold it",
                        in.path(), ggufQuoted(tensor.name)));
      report.error += result.error;
      report.power += result.power;
    }
    return Status::ok();
  }

  struct RowResult {
    bool finite = true;
    double error = 0, power = 0;
  };

  void measure(Floats row, std::span<const uint8_t> bytes,
               RowResult &result) const {
    const std::vector<float> decoded =
        ref::weightRow({report.to, bytes, row.size()}, 0);
    for (size_t i = 0; i < row.size(); ++i) {
      const double x = row[i], d = x - decoded[i];
      result.error += d * d;
      result.power += x * x;
    }
  }

  const Gguf &in;
  const GgufTensor &tensor;
  const QuantizeOptions &options;
  uint64_t done;
  TensorReport &report;
  std::vector<uint8_t> source, target;
};

} // namespace

Result<std::vector<TensorReport>> quantizeFile(const Gguf &in,
                                               const std::filesystem::path &out,
                                               const QuantizeOptions &options) {
  GgufWriter writer;
  for (const std::string &key : in.keys())
    if (key != "general.file_type" && key != "general.quantization_version")
      writer.set(key, *in.find(key));
  if (options.recipe.fileType)
    writer.set("general.file_type", GgufValue::of(*options.recipe.fileType));
  writer.set("general.quantization_version", GgufValue::of(uint32_t{2}));

  std::vector<TensorReport> reports(in.tensors().size());
  uint64_t elements = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    const GgufTensor &tensor = in.tensors()[i];
    TensorReport &report = reports[i];
    report = {tensor.name, tensor.format(), options.recipe.formatOf(tensor),
              tensor.elements()};
    if (report.from != report.to && (weightFormatInfo(report.from).bookLevels ||
                                     weightFormatInfo(report.to).bookLevels))
      return invalidInput(fmt::format(
          "tensor {}: cannot go from {} to {}: codebooks are not in the tensor",
          ggufQuoted(tensor.name), weightFormatInfo(report.from).name,
          weightFormatInfo(report.to).name));
    DS4_ASSIGN(report.bytes, ggufTensorBytes(tensor.name, tensor.dims,
                                             static_cast<uint32_t>(report.to)));
    DS4_TRY(writer.addTensor(
        tensor.name, tensor.dims, report.to,
        [&, before = elements](const GgufWriter::Sink &sink) {
          return TensorJob(in, tensor, options, before, report).run(sink);
        }));
    elements += tensor.elements();
  }
  DS4_TRY(writer.write(out));
  return reports;
}

} // namespace ds4::quant
