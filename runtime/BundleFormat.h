// BundleFormat.h - the contract between compiler and runtime: plain structs
// that ds4c writes as manifest.json and plan.json and ds4run reads. The plan is
// data: the runtime walks launches and knows no op by name.
//
// A bundle is a directory NAME.ds4b/:
//   manifest.json         Manifest
//   plan.json             Plan
//   kernels/UNIT.hip      emitted units, one kernel each; prelude and kernel
//                         headers beside them, so that the folder compiles
//   objects/TARGET/...    code objects
//   ir/*.mlir             the final IR, for reading
#ifndef DS4_RUNTIME_BUNDLEFORMAT_H
#define DS4_RUNTIME_BUNDLEFORMAT_H

#include "runtime/Result.h"
#include "runtime/WeightFormats.h"
#include "runtime/WeightLayout.h"

#include <array>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ds4 {

/// Version of these structs; a bundle of another version is refused.
inline constexpr int kBundleVersion = 6;

/// Fingerprint of a bundle that was compiled from a shape (models/Shape.h) and
/// belongs to no model file.
inline constexpr const char *kShapeFingerprint = "shape";

/// What one step processes; a device buffer of this layout is the last
/// argument of every kernel. Layout is shared with ops/launch.h.
struct Step {
  int32_t start;   ///< position of the first token
  int32_t count;   ///< tokens, 1 .. capacity
  int32_t outputs; ///< logits rows: of the last `outputs` tokens
  int32_t reserved;
};

/// What kernels report; a device buffer, zero while all is well. `launch` is
/// 1 + the smallest index of a launch that met a NaN in a selection.
struct StepStatus {
  uint32_t launch;
  uint32_t row; ///< a row of that launch, for the message
};

/// Where a kernel argument points.
enum class ArgKind {
  arena,     ///< offset into the function's arena
  weight,    ///< a tensor of the model file, by its GGUF name
  books,     ///< decode table of the weight `name`, a BooksDesc
  rotations, ///< i32 [E]: rotated experts of the weight `name`
  state,     ///< a cache, by name
  table,     ///< a RopeTable, by name
  tokens,    ///< i32 [capacity]: the step's token ids
  step,      ///< Step
  status,    ///< StepStatus [launches]; offset in bytes of the launch's own
  tickets,   ///< u32 [Function::tickets], zero between steps; offset in bytes
  null,      ///< a null pointer: an operand that the op does not have
};

struct Arg {
  ArgKind kind;
  std::string name{};  ///< for weight, books, state, table
  uint64_t offset = 0; ///< bytes, for arena, status and tickets

  bool operator==(const Arg &) const = default;
};

/// Row domain of a launch or buffer: 1 tokens, R >= 2 windows of R tokens,
/// 0 outputs (ir/Ds4Dialect.td).
using RowRatio = int64_t;

/// Rows of a domain that exist in a step.
inline int64_t rowsInStep(RowRatio ratio, const Step &step) {
  if (ratio == 0)
    return step.outputs;
  return (step.start + step.count) / ratio - step.start / ratio;
}

/// One kernel launch. grid = [work inside a row, rows of the domain / columns];
/// a kernel returns at once for rows that do not exist, so a captured graph
/// may launch all of them and the host target only those of the step.
struct Launch {
  std::string kernel; ///< symbol; also the unit's name
  std::string label;  ///< op mnemonic or name of the fusion, for traces
  int layer = -1;     ///< -1: outside the layers
  std::array<uint32_t, 2> grid{1, 1};
  uint32_t block = 32; ///< threads; a multiple of 32
  RowRatio ratio = 1;
  std::vector<Arg> args;
  /// Weight bytes that one token reads here (experts: the used ones).
  uint64_t weightBytesPerToken = 0;
  /// Of a full step: activations that it reads; activations and cached rows
  /// that it writes. Cached rows that it reads depend on the position.
  uint64_t readBytes = 0, writtenBytes = 0;
  uint32_t columns = 1;     ///< rows of the domain that a row of the grid does
  uint32_t sharedBytes = 0; ///< LDS of a block besides its static arrays
  std::string selection{};  ///< the op that may report a NaN; empty: none
};

/// An activation that `ds4run --check` compares with a dump.
struct TracePoint {
  std::string name;         ///< e.g. "layer3.ffn_out"
  uint32_t afterLaunch = 0; ///< complete once this launch has run
  Arg source;               ///< f32 rows
  uint64_t rowElements = 0; ///< f32 values a row
  RowRatio ratio = 1;
};

/// What the linear of `weight` reads, for `ds4run --collect-imatrix`: rows of
/// one or more vectors of `width` values, and in expert weights which experts
/// read them. With `chosen`, a row is one vector that all of them read, or one
/// for each.
struct Observation {
  std::string weight;
  uint32_t afterLaunch = 0; ///< complete once this launch has run
  Arg source;               ///< f32 rows
  uint64_t rowElements = 0; ///< f32 values a row
  uint32_t width = 0;
  Arg chosen{ArgKind::null}; ///< i32 [rows, used]; null: not an expert weight
  uint32_t used = 0;
  uint32_t experts = 1; ///< of the weight
  RowRatio ratio = 1;
};

/// A phase: decode, prefill, verify.
struct Function {
  std::string name;
  uint32_t capacity = 1; ///< most tokens a step
  uint32_t outputs = 1;  ///< most logits rows a step
  uint64_t arenaBytes = 0;
  /// Counts by which blocks of a launch find out which is the last.
  uint64_t tickets = 0;
  Arg logits; ///< f32 [outputs, vocab]
  Arg argmax; ///< i32 [outputs]
  std::vector<Launch> launches;
  std::vector<TracePoint> traces;
  std::vector<Observation> observations; ///< only with the profile's imatrix
};

/// A tensor of the model file that the plan reads.
struct WeightDesc {
  std::string name;
  WeightFormat format;
  std::vector<int64_t> shape; ///< outermost first
  uint64_t bytes = 0;         ///< in the file
  /// For i32 tables: values must be in [0, limit); 0: unchecked.
  uint32_t valueLimit = 0;
  /// What one token reads of it, in slices of shape[0]: rows of a table, the
  /// experts that it uses, all of anything else.
  uint64_t slicesPerToken = 0;
  WeightLayout layout = WeightLayout::file; ///< in device memory
};

/// Bytes of a weight in device memory.
uint64_t deviceBytes(const WeightDesc &desc);

/// A decode table that the runtime builds from the file's metadata
/// (ds4.books).
struct BooksDesc {
  std::string weight; ///< name of the adaptive weight
  WeightFormat format;
  uint32_t experts = 0; ///< 1 for a dense matrix
  bool int8 = false;    ///< int8 levels and a scale a book; f32 otherwise

  uint64_t bytes() const { return experts * bookBytes(format, int8); }
};

/// Which experts of a weight are rotated, from its decode table
/// (ds4.rotations).
struct RotationsDesc {
  std::string weight;
  uint32_t experts = 0;
};

/// A cache. Row number n of the sequence is in slot n mod rows.
struct StateDesc {
  std::string name;
  uint64_t rows = 0;
  uint64_t rowBytes = 0;
  std::string storage; ///< f32, f16, fp8, fp4
  uint32_t width = 0;  ///< values a row
  RowRatio ratio = 1;  ///< tokens a row, at least 1
};

/// cos/sin table, f32 [positions, 2 pairs] (ds4.rope_table).
struct RopeTable {
  std::string name;
  uint64_t positions = 0;
  uint32_t dims = 0; ///< 2 pairs
  double base = 0, factor = 1;
  uint64_t original = 0;
  double betaFast = 32, betaSlow = 1;
};

struct Plan {
  std::vector<Function> functions;
  std::vector<WeightDesc> weights;
  std::vector<BooksDesc> books;
  std::vector<RotationsDesc> rotations; ///< only with h32 = sylvester
  std::vector<StateDesc> states;
  std::vector<RopeTable> tables;

  const Function *find(std::string_view name) const;
};

/// A code object for one target.
struct ObjectDesc {
  std::string target; ///< host, gfx1151
  std::string kernel; ///< the one that it defines; empty: all of the bundle
  std::string file;   ///< path inside the bundle
  std::string key;    ///< hash(units, headers, target, compiler, options)
  std::string hash;   ///< of the file's bytes
  std::string cpu;    ///< host: features it needs, e.g. "x86-64-v3"
};

struct UnitDesc {
  std::string name; ///< kernel symbol
  std::string file; ///< kernels/NAME.hip
  std::string hash; ///< of the text
};

struct Manifest {
  int version = kBundleVersion;
  std::string tool;        ///< "ds4c 0.1.0"
  std::string modelName;   ///< general.name
  std::string fingerprint; ///< Gguf::fingerprint(), or kShapeFingerprint
  std::map<std::string, std::string> profile;
  uint32_t layers = 0, vocab = 0, context = 0;
  /// Tokens that a rollback may take back: what the rings are laid out for
  /// (docs/model.md, "State").
  uint32_t mostRollback = 0;
  std::string planHash;
  std::vector<UnitDesc> units;
  std::vector<ObjectDesc> objects;
};

/// Text forms (JSON, stable order, two-space indent).
std::string planToJson(const Plan &plan);
std::string manifestToJson(const Manifest &manifest);
/// `where` names the file in errors.
Result<Plan> planFromJson(std::string_view text, std::string_view where);
Result<Manifest> manifestFromJson(std::string_view text,
                                  std::string_view where);

/// xxh3 128-bit hash as 32 hex digits.
std::string contentHash(std::string_view bytes);

/// A bundle as read from disk: versions, plan hash and the hashes of units
/// and objects have been checked.
struct Bundle {
  std::filesystem::path path;
  Manifest manifest;
  Plan plan;
};

/// Errors: a missing or malformed file, another version, a hash that differs.
Result<Bundle> openBundle(const std::filesystem::path &path);

} // namespace ds4

#endif // DS4_RUNTIME_BUNDLEFORMAT_H
