// Quantizer.cpp - reads pieces of rows, encodes them on all threads, hands
// them to the writer. Sums of reports run over rows in order, so that a report
// does not depend on the number of threads.
#include "quant/Quantizer.h"

#include "ops/Reference.h"
#include "quant/Encoders.h"
#include "quant/MixEncoder.h"
#include "quant/MixTables.h"
#include "quant/Parallel.h"
#include "quant/RowSearch.h"
#include "quant/TypeBudget.h"
#include "runtime/GgufWriter.h"

#include <cmath>
#include <fmt/format.h>
#include <fstream>

namespace ds4::quant {

static constexpr uint64_t kPieceElements = 1 << 22;
/// What a budget chooses from, beside the recipe's formats.
static constexpr WeightFormat kBudgetFormats[] = {
    WeightFormat::q2_0_rocmfp2, WeightFormat::q3_0_rocmfpx,
    WeightFormat::q4_0_rocmfp4_fast};
/// Rows, and matrices they are of, that tell what a format costs a tensor.
static constexpr uint64_t kTrialRows = 1024, kTrialMatrices = 16;

/// Whether every f16 in `bytes`, scales or values, is finite: larger values
/// than f16 holds would be encoded as infinity.
static bool scalesAreFinite(WeightFormat format,
                            std::span<const uint8_t> bytes) {
  const WeightFormatInfo &info = weightFormatInfo(format);
  if (format != WeightFormat::f16 && info.scaleKind != ScaleKind::f16)
    return true;
  for (size_t at = info.scaleOffset; at + 1 < bytes.size();
       at += info.blockBytes)
    if ((bytes[at + 1] & 0x7c) == 0x7c)
      return false;
  return true;
}

namespace {

/// A tensor's way from file to file.
class TensorJob {
public:
  TensorJob(const Gguf &in, const GgufTensor &tensor,
            const QuantizeOptions &options, TensorReport &report)
      : in(in), tensor(tensor), options(options), report(report),
        columns(tensor.dims[0]),
        rowsPerMatrix(tensor.dims.size() == 3 ? tensor.dims[1] : tensor.rows()),
        matrices(tensor.rows() / rowsPerMatrix),
        bookSize(2 * weightFormatInfo(report.to).bookLevels) {}

  uint64_t doneBefore = 0;  ///< elements of earlier tensors, for progress
  std::vector<float> books; ///< [matrices, 2, levels] after fit()
  const GgufTensor &target() const { return tensor; }

  /// Fits a pair of books to each matrix.
  Status fit() {
    DS4_TRY(loadStatistics());
    books.resize(matrices * bookSize);
    for (uint64_t matrix = 0; matrix < matrices; matrix += options.threads) {
      const uint64_t count =
          std::min<uint64_t>(options.threads, matrices - matrix);
      DS4_TRY(readRows(matrix * rowsPerMatrix, count * rowsPerMatrix));
      parallelFor(count, options.threads, [&](uint64_t i) {
        std::vector<float> values;
        values.reserve(rowsPerMatrix * columns);
        for (uint64_t r = 0; r < rowsPerMatrix; ++r) {
          const std::vector<float> row = sourceRow(i * rowsPerMatrix + r);
          values.insert(values.end(), row.begin(), row.end());
        }
        const std::vector<float> fitted =
            fitBooks(report.to, values, columns, importance[matrix + i]);
        std::copy(fitted.begin(), fitted.end(),
                  books.begin() +
                      static_cast<ptrdiff_t>((matrix + i) * bookSize));
      });
    }
    return Status::ok();
  }

  Status run(const GgufWriter::Sink &sink) {
    DS4_TRY(loadStatistics());
    if (searching())
      DS4_TRY(loadLayer());
    const uint64_t rows = tensor.rows();
    const uint64_t pieceRows = std::max<uint64_t>(kPieceElements / columns, 1);
    uint64_t count = 0;
    for (uint64_t first = 0; first < rows; first += count) {
      count = std::min(pieceRows, rows - first);
      if (searching()) {
        // One matrix at a time.
        const uint64_t inMatrix = first % rowsPerMatrix;
        count = std::min(count, rowsPerMatrix - inMatrix);
        if (inMatrix == 0) {
          DS4_ASSIGN(moments, matrixMoments(first / rowsPerMatrix));
        }
      }
      DS4_TRY(readRows(first, count));
      DS4_TRY(encode(first, count));
      DS4_TRY(sink(std::as_bytes(std::span(encoded))));
      if (options.progress)
        options.progress(doneBefore + (first + count) * columns, tensor.name);
    }
    forget();
    return Status::ok();
  }

  /// Fills errors and powers of the report from some rows of some matrices.
  Status measureSome() {
    DS4_TRY(loadStatistics());
    if (searching())
      DS4_TRY(loadLayer());
    const uint64_t some = std::min(matrices, kTrialMatrices);
    const uint64_t rows =
        std::min(rowsPerMatrix, std::max<uint64_t>(kTrialRows / some, 1));
    const uint64_t stride = rowsPerMatrix / rows;
    for (uint64_t k = 0; k < some; ++k) {
      const uint64_t matrix = k * matrices / some;
      if (searching()) {
        DS4_ASSIGN(moments, matrixMoments(matrix));
      }
      DS4_TRY(readRows(matrix * rowsPerMatrix, rows, stride));
      DS4_TRY(encode(matrix * rowsPerMatrix, rows, stride));
    }
    forget();
    return Status::ok();
  }

private:
  void forget() {
    moments.reset();
    statistics.reset();
    importance.clear();
  }

  /// Whether moments are of use.
  bool searching() const {
    return options.search && statistics && statistics->block &&
           canSearch(report.to);
  }

  Status loadStatistics() {
    importance.assign(matrices, {});
    statistics.reset();
    if (!options.imatrix || report.from == report.to)
      return Status::ok();
    DS4_ASSIGN(statistics,
               options.imatrix->statistics(tensor.name, columns, matrices));
    if (!statistics)
      return Status::ok();
    for (uint64_t m = 0; m < matrices; ++m)
      importance[m] = statistics->importance(m);
    return Status::ok();
  }

  Result<std::vector<float>> sumsOf(uint64_t matrix) const {
    return options.imatrix->moments(tensor.name, *statistics, matrix);
  }

  /// Fills `layer`, for a tensor of several matrices.
  Status loadLayer() {
    layer = {};
    double inputs = 0;
    for (const float count : statistics->counts)
      inputs += count;
    if (matrices == 1 || !(inputs > 0))
      return Status::ok();
    std::vector<double> moment(columns * statistics->block);
    for (uint64_t m = 0; m < matrices; ++m) {
      DS4_ASSIGN(const std::vector<float> own, sumsOf(m));
      for (size_t i = 0; i < moment.size(); ++i)
        moment[i] += own[i];
    }
    for (const double sum : moment)
      layer.push_back(static_cast<float>(sum / inputs));
    return Status::ok();
  }

  /// Nothing if the tensor met no input.
  Result<std::optional<InputMoments>> matrixMoments(uint64_t matrix) const {
    std::optional<InputMoments> result;
    const double inputs = statistics->counts[matrix];
    if (!(inputs > 0) && layer.empty())
      return result;
    DS4_ASSIGN(const std::vector<float> sums, sumsOf(matrix));
    result.emplace(columns, statistics->block, sums, inputs, layer);
    return result;
  }

  /// Fills `source`, with every `stride`-th row.
  Status readRows(uint64_t first, uint64_t count, uint64_t stride = 1) {
    const uint64_t rowBytes = weightRowBytes(report.from, columns);
    source.resize(count * rowBytes);
    std::ifstream file(in.path(), std::ios::binary);
    const uint64_t reads = stride == 1 ? 1 : count;
    const uint64_t size = source.size() / reads;
    for (uint64_t i = 0; i < reads; ++i) {
      file.seekg(static_cast<std::streamoff>(tensor.fileOffset +
                                             (first + i * stride) * rowBytes));
      if (!file.read(reinterpret_cast<char *>(source.data() + i * size),
                     static_cast<std::streamsize>(size)))
        return ioError(fmt::format("cannot read tensor {} of {}",
                                   ggufQuoted(tensor.name), in.path()));
    }
    return Status::ok();
  }
  std::vector<float> sourceRow(uint64_t i) const {
    return ref::weightRow({report.from, source, columns}, i);
  }

  struct RowResult {
    bool good = true;
    double error = 0, power = 0, outputError = 0, outputPower = 0;
  };

  /// Fills `encoded` from the rows in `source`: row `first` and so on.
  Status encode(uint64_t first, uint64_t count, uint64_t stride = 1) {
    if (report.from == report.to) {
      encoded = source;
      return Status::ok();
    }
    const uint64_t rowBytes = weightRowBytes(report.to, columns);
    encoded.resize(count * rowBytes);
    std::vector<RowResult> results(count);
    parallelFor(count, options.threads, [&](uint64_t i) {
      const uint64_t matrix = (first + i * stride) / rowsPerMatrix;
      const std::vector<float> row = sourceRow(i);
      const std::span<uint8_t> out(encoded.data() + i * rowBytes, rowBytes);
      const Floats rowBooks =
          Floats(books).subspan(matrix * bookSize, bookSize);
      results[i].good =
          std::ranges::all_of(row, [](float x) { return std::isfinite(x); });
      if (!results[i].good)
        return;
      if (moments && canSearch(report.to))
        searchRow(report.to, rowBooks, row, *moments, out.data());
      else if (bookSize)
        results[i].good = encodeMixRow(report.to, rowBooks, row,
                                       importance[matrix], out.data());
      else
        encodeRow(report.to, row, importance[matrix], out.data());
      results[i].good &= scalesAreFinite(report.to, out);
      if (options.measure && results[i].good)
        measure(row, out, rowBooks, importance[matrix], results[i]);
    });
    for (const RowResult &result : results) {
      if (!result.good)
        return invalidInput(fmt::format(
            "{}: tensor {} has a value that is not finite, or too large for "
            "{}",
            in.path(), ggufQuoted(tensor.name),
            weightFormatInfo(report.to).name));
      report.error += result.error;
      report.power += result.power;
      report.outputError += result.outputError;
      report.outputPower += result.outputPower;
    }
    return Status::ok();
  }

  void measure(Floats row, std::span<const uint8_t> bytes, Floats rowBooks,
               Floats weights, RowResult &result) const {
    const std::vector<float> decoded =
        ref::weightRow({report.to, bytes, row.size(), rowBooks, 1}, 0);
    for (size_t i = 0; i < row.size(); ++i) {
      const double w = weights.empty() ? 1 : weights[i];
      const double x = row[i], d = x - decoded[i];
      result.error += w * d * d;
      result.power += w * x * x;
    }
    if (!moments)
      return;
    std::vector<float> difference(row.begin(), row.end());
    for (size_t i = 0; i < row.size(); ++i)
      difference[i] -= decoded[i];
    result.outputError = moments->quadraticForm(difference);
    result.outputPower = moments->quadraticForm(row);
  }

  const Gguf &in;
  const GgufTensor &tensor;
  const QuantizeOptions &options;
  TensorReport &report;
  const uint64_t columns, rowsPerMatrix, matrices, bookSize;
  std::vector<std::vector<float>> importance; ///< [matrices]; may be empty
  std::optional<InputStatistics> statistics;
  std::vector<float> layer;            ///< means over all matrices of several
  std::optional<InputMoments> moments; ///< of the matrix in work
  std::vector<uint8_t> source, encoded;
};

} // namespace

static GgufWriter writerFor(const Gguf &in, const Recipe &recipe) {
  GgufWriter writer;
  for (const std::string &key : in.keys())
    if (key != "general.file_type" && key != "general.quantization_version")
      writer.set(key, *in.find(key));
  if (recipe.fileType)
    writer.set("general.file_type", GgufValue::of(*recipe.fileType));
  writer.set("general.quantization_version", GgufValue::of(uint32_t{2}));
  return writer;
}

/// What the budget may give `tensor`, for which the recipe says `report.to`.
static Result<std::vector<TypeChoice>> choicesFor(const Gguf &in,
                                                  const GgufTensor &tensor,
                                                  const TensorReport &report,
                                                  QuantizeOptions options) {
  std::vector<WeightFormat> formats = {report.to};
  if (report.from != report.to && weightFormatInfo(report.to).quantised)
    for (const WeightFormat format : kBudgetFormats)
      if (format != report.to && format != report.from &&
          ggufTensorBytes(tensor.name, tensor.dims,
                          weightFormatInfo(format).typeId))
        formats.push_back(format);
  // Outputs of layers add up, two a layer, to what the head reads; the head's
  // are the logits.
  const Result<uint64_t> layers = in.u64("deepseek4.block_count");
  const double weight = layers && tensor.name == "output.weight"
                            ? 2 * static_cast<double>(*layers)
                            : 1;
  std::vector<TypeChoice> choices;
  options.measure = true;
  for (const WeightFormat format : formats) {
    TensorReport trial{tensor.name, report.from, format, tensor.elements()};
    if (formats.size() > 1)
      DS4_TRY(TensorJob(in, tensor, options, trial).measureSome());
    DS4_ASSIGN(const uint64_t bytes,
               ggufTensorBytes(tensor.name, tensor.dims,
                               weightFormatInfo(format).typeId));
    const uint64_t last = in.alignment() - 1;
    const double error = trial.outputPower > 0 ? trial.relativeOutputError()
                                               : trial.relativeError();
    choices.push_back({format, (bytes + last) & ~last, weight * error});
  }
  return choices;
}

/// Changes formats of `reports`, which are the recipe's, to fit the budget.
static Status fitBudget(const Gguf &in, const QuantizeOptions &options,
                        std::vector<TensorReport> &reports) {
  GgufWriter header = writerFor(in, options.recipe);
  std::vector<std::vector<TypeChoice>> tensors;
  uint64_t recipeBytes = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    const GgufTensor &tensor = in.tensors()[i];
    if (weightFormatInfo(reports[i].to).bookLevels)
      return invalidInput(fmt::format(
          "the recipe says {} for tensor {}: a budget is for recipes without "
          "learned levels",
          weightFormatInfo(reports[i].to).name, ggufQuoted(tensor.name)));
    if (options.progress)
      options.progress(0, tensor.name);
    DS4_ASSIGN(std::vector<TypeChoice> choices,
               choicesFor(in, tensor, reports[i], options));
    recipeBytes += choices[0].bytes;
    tensors.push_back(std::move(choices));
    DS4_TRY(header.declareTensor(tensor.name, tensor.dims, reports[i].to));
  }
  DS4_ASSIGN(const uint64_t recipeFile, header.fileBytes());
  const uint64_t rest = recipeFile - recipeBytes;
  if (*options.budget < rest)
    return invalidInput(
        fmt::format("a budget of {} bytes is less than the metadata take",
                    *options.budget));
  DS4_ASSIGN(const std::vector<size_t> chosen,
             chooseTypes(tensors, *options.budget - rest));
  for (size_t i = 0; i < reports.size(); ++i)
    reports[i].to = tensors[i][chosen[i]].format;
  return Status::ok();
}

Result<std::vector<TensorReport>> quantizeFile(const Gguf &in,
                                               const std::filesystem::path &out,
                                               const QuantizeOptions &options) {
  std::vector<TensorReport> reports;
  for (const GgufTensor &tensor : in.tensors()) {
    const TensorReport &report = reports.emplace_back(
        TensorReport{tensor.name, tensor.format(),
                     options.recipe.formatOf(tensor), tensor.elements()});
    if (weightFormatInfo(report.from).bookLevels)
      return invalidInput(fmt::format(
          "tensor {} is {}, whose codebooks would be lost: start from a file "
          "with plain formats",
          ggufQuoted(tensor.name), weightFormatInfo(report.from).name));
  }
  if (options.budget)
    DS4_TRY(fitBudget(in, options, reports));

  std::vector<TensorJob> jobs;
  const Result<uint64_t> groups =
      in.u64("deepseek4.attention.output_group_count");
  MixTables tables(groups ? static_cast<uint32_t>(*groups) : 1);
  uint64_t elements = 0;
  for (size_t i = 0; i < reports.size(); ++i) {
    const GgufTensor &tensor = in.tensors()[i];
    TensorReport &report = reports[i];
    DS4_ASSIGN(report.bytes,
               ggufTensorBytes(tensor.name, tensor.dims,
                               weightFormatInfo(report.to).typeId));
    TensorJob &job = jobs.emplace_back(in, tensor, options, report);
    job.doneBefore = elements;
    elements += tensor.elements();
    if (!weightFormatInfo(report.to).bookLevels)
      continue;
    DS4_TRY(tables.check(tensor, report.to));
    DS4_TRY(job.fit());
    tables.add(tensor, report.to, job.books);
  }

  GgufWriter writer = writerFor(in, options.recipe);
  tables.write(writer);
  for (TensorJob &job : jobs)
    DS4_TRY(writer.addTensor(
        job.target().name, job.target().dims, reports[&job - jobs.data()].to,
        [&job](const GgufWriter::Sink &sink) { return job.run(sink); }));
  DS4_TRY(writer.write(out));
  return reports;
}

} // namespace ds4::quant
