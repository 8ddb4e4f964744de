// Session.h - one sequence on one device: a bundle and its weights in memory,
// and steps over tokens. Walks the launches of the plan and knows no op by
// name. Text, sampling and chat are elsewhere.
#ifndef DS4_RUNTIME_SESSION_H
#define DS4_RUNTIME_SESSION_H

#include "runtime/Admission.h"
#include "runtime/BundleFormat.h"
#include "runtime/Device.h"
#include "runtime/Gguf.h"
#include "runtime/Result.h"
#include "runtime/SequenceState.h"
#include "runtime/WeightLoader.h"
#include "runtime/WeightSource.h"

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace ds4 {

struct SessionOptions {
  unsigned threads = 0;      ///< host target: 0 is one a core
  uint32_t prefillChunk = 0; ///< most tokens a step; 0: what the bundle allows
  LoadOptions load;
  KernelBuildOptions build; ///< where the bundle has no object for the device
  /// Memory that may be used; absent: what the machine says is available.
  std::optional<uint64_t> availableBytes;
};

/// Logits of the rows that forward() was asked for.
struct Logits {
  uint32_t vocab = 0;
  std::vector<float> values;   ///< [rows, vocab]
  std::vector<int32_t> argmax; ///< [rows], as the device selected it

  size_t rows() const { return argmax.size(); }
  std::span<const float> row(size_t index) const {
    return std::span(values).subspan(index * vocab, vocab);
  }
};

/// What a session tells while it runs; all optional. Called on the thread that
/// calls forward().
struct SessionHooks {
  /// An activation: `rows` is [rowsInStep, point.rowElements].
  std::function<void(const TracePoint &point, const Step &step,
                     std::span<const float> rows)>
      trace;
  /// What a linear reads: `rows` is [rowsInStep, rowElements], `chosen` is
  /// [rowsInStep, used] or empty. Only in bundles of the profile's imatrix.
  std::function<void(const Observation &observation, const Step &step,
                     std::span<const float> rows,
                     std::span<const int32_t> chosen)>
      observe;
  /// Each launch with its begin and end, in nanoseconds of a steady clock.
  /// Waits for the device after every launch.
  std::function<void(const Function &function, const Launch &launch,
                     const Step &step, int64_t beginNs, int64_t endNs)>
      timing;
  /// After each step: tokens of this forward() done, of all.
  std::function<void(size_t done, size_t total)> progress;
  /// Asked before each step: true ends forward() with ErrorCode::cancelled;
  /// tokens of earlier steps stay processed.
  std::function<bool()> cancelled;
};

class Session {
public:
  /// Opens a bundle on the host. Errors: `file` is not the model that
  /// the bundle was compiled for, the CPU lacks a feature, not enough memory
  /// (before anything is allocated), damaged weights.
  static Result<std::unique_ptr<Session>> open(Bundle bundle, const Gguf &file,
                                               const SessionOptions &options);
  /// The same on a given device; compiles the units for it if the bundle has
  /// no object.
  static Result<std::unique_ptr<Session>> open(Bundle bundle, const Gguf &file,
                                               std::unique_ptr<Device> device,
                                               const SessionOptions &options);
  /// The same with weights from `source`, which fit the plan.
  static Result<std::unique_ptr<Session>> open(Bundle bundle,
                                               const WeightSource &source,
                                               std::unique_ptr<Device> device,
                                               const SessionOptions &options);
  ~Session();
  Session(const Session &) = delete;
  Session &operator=(const Session &) = delete;

  /// Processes `ids` at position(), position() + 1, ... and returns the logits
  /// of `rows`: indices into `ids`, ascending. Errors: a token id outside the
  /// vocabulary, more positions than the context, a NaN in a selection (names
  /// op, layer and token position), a device error, cancelled. After an error
  /// position() is the first token that was not completed.
  Result<Logits> forward(std::span<const int32_t> ids,
                         std::span<const uint32_t> rows);
  /// What the device selects in `rows`, without the logits. Errors as above.
  Result<std::vector<int32_t>> greedy(std::span<const int32_t> ids,
                                      std::span<const uint32_t> rows);
  /// Logits of the last token.
  Result<Logits> forward(std::span<const int32_t> ids);

  /// Tokens that rollback() can take back: the bundle's rings keep what is
  /// needed to undo a verify step.
  uint32_t mostRollback() const { return bundle.manifest.mostRollback; }
  /// Number of tokens in the sequence.
  uint32_t position() const { return currentPosition; }
  uint32_t context() const { return bundle.manifest.context; }
  uint32_t vocab() const { return bundle.manifest.vocab; }
  const Manifest &manifest() const { return bundle.manifest; }
  const Plan &plan() const { return bundle.plan; }
  const LoadStats &loadStats() const { return stats; }
  const MemoryNeed &memory() const { return need; }
  /// Weight bytes that decoding one token reads.
  uint64_t weightBytesPerToken() const;

  /// Forgets the tokens from `position` on: all of them (0), or up to
  /// mostRollback() before the last that was ever processed, but not before
  /// where the sequence was restored. Error: further back than that.
  Status rollback(uint32_t position);

  /// The sequence's first `position` tokens as bytes (SequenceState.h), a
  /// function of these tokens alone: no matter how they were processed, what
  /// was taken back, on which target. Error: rollback(position) would refuse.
  Result<std::vector<std::byte>> save(uint32_t position);
  Result<std::vector<std::byte>> save() { return save(currentPosition); }
  /// Replaces the sequence by a saved one. Errors, which leave the sequence as
  /// it was: damaged bytes, another model or other settings. `where` names the
  /// source in errors. After a device error the sequence is empty.
  Status restore(std::span<const std::byte> saved,
                 std::string_view where = "the saved sequence");
  /// Replaces the sequence by the first `position` tokens of another session's,
  /// so that both have this prefix. Errors as of save() and restore().
  Status fork(Session &from, uint32_t position);

  SessionHooks hooks;

private:
  /// A launch with its pointers.
  struct BoundLaunch {
    const Kernel *kernel;
    std::vector<void *> args;
  };
  struct BoundFunction {
    std::vector<BoundLaunch> launches;
    const Graph *graph = nullptr; ///< of all launches; null: none
    bool captured = false;        ///< it was tried
    const void *logits, *argmax;
    std::vector<const void *> traces; ///< as Function::traces
    struct Observed {
      const void *source, *chosen;
    };
    std::vector<Observed> observations; ///< as Function::observations
  };

  Session(Bundle bundle, std::unique_ptr<Device> device,
          const SessionOptions &options);
  Status load(const WeightSource &source);
  Result<void *> allocate(uint64_t bytes, std::string_view what);
  Status loadKernels();
  /// Whether the state of the first `position` tokens is there.
  Status reach(uint32_t position) const;
  Status bindAll();
  Result<BoundFunction> bind(const Function &function);
  /// The pointer of `arg`; `bytes` behind an arena offset must exist.
  Result<void *> resolve(const Function &function, const Arg &arg,
                         uint64_t bytes);
  Status run(std::span<const int32_t> ids, std::span<const uint32_t> rows,
             bool values, Logits &result);
  Status runStep(const Function &function, BoundFunction &bound,
                 std::span<const int32_t> ids, const Step &step,
                 std::vector<ReadBack> results);
  Status capture(const Function &function, BoundFunction &bound);
  Status runLaunches(const Function &function, const BoundFunction &bound,
                     const Step &step);
  Status copyTraces(const Function &function, const BoundFunction &bound,
                    uint32_t launch, const Step &step);
  Status copyObservations(const Function &function, const BoundFunction &bound,
                          uint32_t launch, const Step &step);
  Status checkStatus(const Function &function, const Step &step,
                     std::span<const StepStatus> reports);

  Bundle bundle;
  std::unique_ptr<Device> device;
  std::unique_ptr<RtcCompiler> compiler; ///< null: the bundle has objects
  SessionOptions options;
  LoadStats stats;
  MemoryNeed need;

  SequenceState sequence;
  std::vector<void *> allocations; ///< freed by the destructor
  std::map<std::string, void *, std::less<>> weights, books, rotations, states,
      tables;
  void *arena = nullptr;
  void *tokens = nullptr;  ///< i32 [capacity of the largest function]
  void *step = nullptr;    ///< Step
  void *status = nullptr;  ///< StepStatus [most launches of a function]
  void *tickets = nullptr; ///< u32 [most tickets of a function]
  std::vector<uint32_t> clearTickets; ///< as many zeros
  bool ticketsTaken = false;          ///< a step began and did not end
  std::vector<Function> phases;       ///< those that forward() runs
  std::vector<BoundFunction> boundPhases;

  uint32_t currentPosition = 0;
  /// One past the last position that a step has written since the sequence was
  /// empty: what limits rollback.
  uint32_t highWater = 0;
  /// Where the sequence was restored: earlier rows may be missing.
  uint32_t restoredPosition = 0;
};

inline Result<std::unique_ptr<Session>>
Session::open(Bundle bundle, const Gguf &file, const SessionOptions &options) {
  DS4_ASSIGN(std::unique_ptr<Device> device, createHostDevice(options.threads));
  return open(std::move(bundle), file, std::move(device), options);
}

} // namespace ds4

#endif // DS4_RUNTIME_SESSION_H
