// KernelHarness.h - runs one op's kernel on the host device, so that a test can
// hold it to the oracle bit for bit: op text -> kernelFor -> emitUnit ->
// compiled in process -> createHostDevice with 1 and with 2 threads.
//
// Declare Kernels at namespace scope: all of a test binary are compiled
// together, into one shared object, when the first of them runs.
#ifndef DS4_OPS_TEST_KERNELHARNESS_H
#define DS4_OPS_TEST_KERNELHARNESS_H

#include "runtime/BundleFormat.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace ds4::test {

/// Memory of one kernel argument; weights are in file order, whatever their
/// layout. What `input` does not fill holds 0xff bytes
/// (NaN, index -1), as rows past the end of a step may; of a pure output, what
/// lies past `output` must stay so.
struct Memory {
  std::span<const uint8_t> input;
  std::span<uint8_t> output;
};

template <typename T> std::span<const uint8_t> bytesOf(const T &values) {
  return {reinterpret_cast<const uint8_t *>(values.data()),
          values.size() * sizeof(values[0])};
}
template <typename T> std::span<uint8_t> writableBytesOf(T &values) {
  return {reinterpret_cast<uint8_t *>(values.data()),
          values.size() * sizeof(values[0])};
}
template <typename T> Memory in(const T &values) {
  return {bytesOf(values), {}};
}
template <typename T> Memory out(T &values) {
  return {{}, writableBytesOf(values)};
}
template <typename T> Memory inOut(T &values) {
  return {bytesOf(values), writableBytesOf(values)};
}
/// An optional operand that is not there.
inline Memory none() { return {}; }

class Kernel {
public:
  /// `op` is the op up to its types, with operands %0, %1, ... of the types
  /// `operands`, e.g. Kernel("ds4.rms_norm %0 eps 1.0e-6", {"tensor<1x8xf32>"},
  /// {"tensor<1x8xf32>"}). Ops that do not print a function type write their
  /// own " : TYPES" at the end. A ds4.launch is an op, too: its memory is what
  /// the bodies of the host take, in the order in which they do.
  ///
  /// `target`: for which the launch is cut; it is cut for sm_90 as well, and
  /// must give the same. What a GPU's bodies do runs here, too; its matrix
  /// instructions are emulated (ops/host_tiles.h).
  Kernel(std::string op, std::vector<std::string> operands,
         std::vector<std::string> results, std::string_view target = "host");

  /// Runs a step: the launch as it is cut for the host, with one thread and
  /// with two, and as for a GPU if that differs. `memory` is in the order of
  /// the host's arguments, without status and step. Fails the test if a launch
  /// fails, if results differ, or if something past an output was written.
  /// Returns the status: all zero unless a selection met a NaN.
  StepStatus run(const Step &step, std::vector<Memory> memory) const;

  /// Mnemonics of all Kernels of this binary.
  static std::set<std::string> declaredOps();

private:
  size_t index;
};

/// Types in assembly.
std::string tensor(std::initializer_list<int64_t> shape,
                   std::string_view element = "f32");
std::string weight(std::initializer_list<int64_t> shape,
                   std::string_view format = "f32",
                   WeightLayout layout = WeightLayout::file);
/// Learned books of `format` for int8 or f32 activations.
std::string books(WeightFormat format, bool int8, int64_t experts);
std::string state(int64_t rows, int64_t width, std::string_view storage);

/// Fails at the first element that differs in any bit.
template <typename T>
void expectSameBits(const std::vector<T> &expected,
                    const std::vector<T> &actual, std::string_view what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (size_t i = 0; i < expected.size(); ++i)
    ASSERT_EQ(std::memcmp(&expected[i], &actual[i], sizeof(T)), 0)
        << what << "[" << i << "]: expected " << +expected[i] << ", found "
        << +actual[i];
}

} // namespace ds4::test

#endif // DS4_OPS_TEST_KERNELHARNESS_H
