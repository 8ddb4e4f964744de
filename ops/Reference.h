// Reference.h - the oracle: what every op of ir/Ds4Ops.td computes, in plain
// loops in the op's declared order, so that kernels are compared bit for bit.
// Slow and obvious; only tests, ds4-interp and, for its decoders, ds4quant link
// it. One op a file, ops/<op>_ref.cpp; none shares code with ops/*.hip or
// ops/weights/*.h beyond the number code of ops/numbers.h.
//
// Tensors are row-major spans that hold exactly the rows of the step; letters
// in shapes are those of Ds4Ops.td. Sizes are the caller's duty: wrong ones are
// programming errors (assert), since the IR's verifiers have refused them.
#ifndef DS4_OPS_REFERENCE_H
#define DS4_OPS_REFERENCE_H

#include "runtime/BundleFormat.h"
#include "runtime/WeightFormats.h"

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ds4::ref {

using Floats = std::span<const float>;
using Ints = std::span<const int32_t>;

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

/// A row domain in a step (Ds4Dialect.td).
struct Rows {
  RowRatio ratio = 1;
  Step step{};

  uint64_t count() const { return rowsInStep(ratio, step); }
  /// Number of row i in the sequence; tokens and windows only.
  uint64_t number(uint64_t i) const { return step.start / ratio + i; }
  /// Position of row i in the sequence; tokens and windows only.
  uint64_t position(uint64_t i) const { return number(i) * ratio; }
};

/// Dot product in strided order, and in segmented order with elements as
/// terms; a and b have one size.
float stridedDot(Floats a, Floats b);
float segmentedDot(Floats a, Floats b);
/// Bounds of segment s of n terms: floor(s n / 8), floor((s + 1) n / 8).
inline uint64_t segmentBegin(uint64_t s, uint64_t n) { return s * n / 8; }
/// ((0+1)+(2+3))+((4+5)+(6+7)).
float tree8(std::span<const float, 8> p);

/// A tensor of the model file as rows of `columns` elements; a weight
/// [E, F, K] has E F rows.
struct Weight {
  WeightFormat format = WeightFormat::f32;
  std::span<const uint8_t> bytes;
  uint64_t columns = 0;
  /// For formats with learned books: the books in the form of the activations
  /// (ds4.books), f32 [E, 2, levels] or i8 [E, 2, levels + 4], and F; 0 for a
  /// matrix, which is one expert.
  Floats books = {};
  uint64_t rowsPerExpert = 0;
  std::span<const uint8_t> int8Books = {};

  uint64_t rows() const {
    return bytes.size() / weightRowBytes(format, columns);
  }
  const uint8_t *row(uint64_t index) const {
    return bytes.data() + index * weightRowBytes(format, columns);
  }
  uint64_t expertOf(uint64_t row) const {
    return rowsPerExpert ? row / rowsPerExpert : 0;
  }
};

/// 32 elements of a quantised format. With two scales the first is for
/// elements 0 to 15.
struct WeightBlock {
  std::array<int, 32> level;
  std::array<float, 2> scale, minimum;
  unsigned scales; ///< 1 or 2
  bool minimums;   ///< minimum[] is added to level times scale

  float value(unsigned i) const;
};
/// Elements 32 index, ... of a row. Formats that int8 activations may meet.
/// `int8Books` are the expert's [2, levels + 4], null for formats without.
WeightBlock weightBlock(WeightFormat format, const uint8_t *row, uint64_t index,
                        const uint8_t *int8Books = nullptr);

/// Element i of a row, exact. `books` are the expert's [2, levels], null for
/// formats without. The format is not i32.
float weightAt(WeightFormat format, const uint8_t *row, uint64_t i,
               const float *books = nullptr);
/// All elements of row `index`.
std::vector<float> weightRow(const Weight &weight, uint64_t index);
/// acc plus the elements of a block times 32 int8 codes of scale d, as
/// ds4.linear says.
float blockDot(const WeightBlock &w, const int8_t *codes, float d, float acc);

/// int8 activations: vectors of `width` codes, each followed by its width / 32
/// f32 scales, as in memory (Ds4_Q8Type).
struct Q8 {
  uint64_t width = 0;
  std::vector<uint8_t> bytes;

  uint64_t vectorBytes() const { return width + width / 32 * 4; }
  uint64_t vectors() const { return bytes.size() / vectorBytes(); }
  const int8_t *codes(uint64_t vector) const;
  float scale(uint64_t vector, uint64_t block) const;
};

/// Activations of a linear: vectors of K values, f32 or int8.
struct Act {
  Act(Floats values, uint64_t width) : values(values), width(width) {}
  Act(const Q8 &q8) : q8(&q8), width(q8.width) {}

  uint64_t vectors() const {
    return q8 ? q8->vectors() : values.size() / width;
  }

  Floats values;
  const Q8 *q8 = nullptr;
  uint64_t width;
};

enum class RowStorage { f32, f16, fp8, fp4 };

/// Bytes of a cached row (Ds4_StateType).
uint64_t stateRowBytes(RowStorage storage, uint64_t width);

/// A cache, byte for byte as Ds4_StateType lays it out. Zeroed at first.
class State {
public:
  State(uint64_t rows, uint64_t width, RowStorage storage);

  /// Encodes `row` into slot number mod rows. Padding bytes are zero.
  void write(uint64_t number, Floats row);
  /// The values in slot number mod rows.
  std::vector<float> read(uint64_t number) const;

  uint64_t rows, width;
  RowStorage storage;
  std::vector<uint8_t> bytes;
};

//===----------------------------------------------------------------------===//
// Embedding, residual streams, norms
//===----------------------------------------------------------------------===//

/// result[T, streams, D]. Tokens are rows of the table.
void embed(Ints tokens, const Weight &table, uint64_t streams,
           std::span<float> result);

struct HcPreParams {
  uint64_t streams = 4, hidden = 0;
  float eps = 0, hcEps = 0;
  uint64_t iterations = 20;
};
/// streams[T, M, D], fn[(2 + M) M, M D], scale[3], base[(2 + M) M] to x[T, D],
/// post[T, M], comb[T, M, M].
void hcPre(const HcPreParams &params, Floats streams, const Weight &fn,
           Floats scale, Floats base, std::span<float> x, std::span<float> post,
           std::span<float> comb);

/// streams[M, D] weighted with weights[M] to result[D]: a product, then an fma
/// for each further stream. hcPre and headCollapse end with it.
void mixStreams(Floats streams, Floats weights, std::span<float> result);

/// y[T, D], streams[T, M, D], post[T, M], comb[T, M, M] to result[T, M, D].
void hcPost(uint64_t streamCount, uint64_t hidden, Floats y, Floats streams,
            Floats post, Floats comb, std::span<float> result);

/// streams[L, M, D], fn[M, M D], scale[1], base[M] to result[L, D]; iterations
/// of params are not used.
void headCollapse(const HcPreParams &params, Floats streams, const Weight &fn,
                  Floats scale, Floats base, std::span<float> result);

/// Vectors of `width` values; weight[width] or empty.
void rmsNorm(uint64_t width, Floats x, Floats weight, float eps,
             std::span<float> result);

//===----------------------------------------------------------------------===//
// Linears
//===----------------------------------------------------------------------===//

/// x[T, k, width], experts[T, k], rotations[E]; width a multiple of 32.
void rotate(uint64_t width, Floats x, Ints experts, Ints rotations,
            std::span<float> result);

/// Vectors of `width` values, a multiple of 32.
Q8 quantize(uint64_t width, Floats x);

/// A row of a weight as activations meet it: blocks for int8 activations,
/// values for others.
struct LinearRow {
  LinearRow(const Act &x, const Weight &weight, uint64_t row);

  std::vector<WeightBlock> blocks;
  float productScale = 1.0f; ///< of int8 books, for the whole product
  std::vector<float> values;
};

/// One element of a linear: vector `vector` of x times a row that was decoded
/// for x.
float rowDot(const Act &x, uint64_t vector, const LinearRow &row);

/// x[T, k / used, K], experts[T, k], weight[E, N, K] to result[T, k, N]: choice
/// c takes vector c / used of x.
void expertLinear(const Act &x, uint64_t used, Ints experts,
                  const Weight &weight, std::span<float> result);

/// x[T, K], weight[N, K] to result[T, N].
void linear(const Act &x, const Weight &weight, std::span<float> result);

/// x[T, G, K], weight[G N, K] to result[T, G N].
void groupedLinear(uint64_t groups, const Act &x, const Weight &weight,
                   std::span<float> result);

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

/// x[T, ..., width]; table[positions, dims].
void rope(const Rows &rows, uint64_t width, uint64_t dims, bool inverse,
          Floats x, Floats table, std::span<float> result);

void hadamard(uint64_t width, Floats x, std::span<float> result);

enum class SimulateMode { fp8, fp4 };
/// Vectors of `vectorWidth` values, the first `width` of each round-tripped.
void simulate(SimulateMode mode, uint64_t vectorWidth, uint64_t width, Floats x,
              std::span<float> result);

void roundRow(RowStorage storage, uint64_t width, Floats x,
              std::span<float> result);

/// x[rows, state.width].
void append(const Rows &rows, Floats x, State &state);

/// gate[T, C], ape[R, C] to result[T, C].
void apeAdd(const Step &step, Floats gate, const Weight &ape,
            std::span<float> result);

/// kv, gate[T, C], both rings to result[windows, d].
void compress(const Step &step, uint64_t ratio, bool overlap, Floats kv,
              Floats gate, const State &kvRing, const State &gateRing,
              std::span<float> result);

/// Compressed rows that a query at `position` sees.
inline uint64_t visibleRows(uint64_t position, uint64_t ratio) {
  return (position + 1) / ratio;
}

struct IndexScoreParams {
  uint64_t heads = 0, width = 0, ratio = 0, topK = 0;
  float scale = 0;
};
/// q[T, H, n], weights[T, H], keys to result[T, keys.rows]; rows that are
/// unspecified keep what they have.
void indexScore(const IndexScoreParams &params, const Step &step, Floats q,
                Floats weights, const State &keys, std::span<float> result);

/// A row that met a NaN, if any: the op's error.
using NanRow = std::optional<uint64_t>;

/// scores[T, rows] to result[T, k]; unspecified entries keep what they have.
NanRow topK(const Step &step, uint64_t k, uint64_t ratio, uint64_t rows,
            Floats scores, std::span<int32_t> result);

struct AttendParams {
  uint64_t heads = 0, width = 0, window = 0;
  uint64_t ratio = 0; ///< of the compressed rows; 0: none
  float scale = 0;
};
/// q[T, H, d], kv[T, d], ring, sinks[H], compressed rows or null,
/// selected[T, k] or empty, to result[T, H, d].
void attend(const AttendParams &params, const Step &step, Floats q, Floats kv,
            const State &ring, Floats sinks, const State *compressed,
            Ints selected, std::span<float> result);

//===----------------------------------------------------------------------===//
// Mixture of experts
//===----------------------------------------------------------------------===//

/// What route and hashRoute share, for one token: sqrt(softplus(logit)) of each
/// expert, nothing if a logit is a NaN; and the weights of the chosen ones,
/// score / max(sum of the chosen scores, 2^-14) * scale, ascending sum.
std::optional<std::vector<float>> routerScores(Floats logits);
void chosenWeights(Floats scores, Ints chosen, float scale,
                   std::span<float> weights);

/// logits[T, E], bias[E] to experts[T, k], weights[T, k].
NanRow route(uint64_t k, Floats logits, Floats bias, float scale,
             std::span<int32_t> experts, std::span<float> weights);

/// logits[T, E], tokens[T], table[V, n] to experts[T, k], weights[T, k].
NanRow hashRoute(uint64_t expertCount, uint64_t k, uint64_t n, Floats logits,
                 Ints tokens, Ints table, float scale,
                 std::span<int32_t> experts, std::span<float> weights);

/// experts[T, k] to the numbers 0 ... T k - 1 sorted by expert, stable.
void groupPairs(Ints experts, std::span<int32_t> result);

/// x[T, K], experts[T, k], gate and up[E, F, K] (rowsPerExpert = F) to gateOut
/// and upOut[T, k, F].
void expertGateUp(const Act &x, Ints experts, const Weight &gate,
                  const Weight &up, std::span<float> gateOut,
                  std::span<float> upOut);

/// Elementwise.
void swiglu(Floats gate, Floats up, float limit, std::span<float> result);

/// h[T, k, F], experts[T, k], weight[E, D, F] (rowsPerExpert = D) to
/// result[T, k, D].
void expertDown(const Act &h, Ints experts, const Weight &weight,
                std::span<float> result);

/// y[T, k, D], weights[T, k], shared[T, D] to result[T, D].
void combine(uint64_t k, uint64_t hidden, Floats y, Floats weights,
             Floats shared, std::span<float> result);

//===----------------------------------------------------------------------===//
// Output
//===----------------------------------------------------------------------===//

/// x[T, rowElements] to result[outputs, rowElements].
void takeOutputs(const Step &step, uint64_t rowElements, Floats x,
                 std::span<float> result);

/// logits[L, vocab] to result[L].
NanRow argmax(uint64_t vocab, Floats logits, std::span<int32_t> result);

} // namespace ds4::ref

#endif // DS4_OPS_REFERENCE_H
