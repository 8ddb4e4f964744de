// LanePacker.h - packs rows into layout `lanes` (WeightLayout.h) by a kernel of
// the device, so that the CPU need not: it only reads and checks.
#ifndef DS4_RUNTIME_LANEPACKER_H
#define DS4_RUNTIME_LANEPACKER_H

#include "runtime/Device.h"
#include "runtime/WeightLayout.h"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace ds4 {

class LanePacker {
public:
  /// The kernel, compiled unless the cache has it.
  static Result<KernelCode> compile(const RtcCompiler &compiler,
                                    const Cache &cache);

  /// With the kernel on the device. `rows` are those that pack() will be asked
  /// for, by number. Null: the device compiles no units.
  /// The packer must not outlive the device.
  static Result<std::unique_ptr<LanePacker>>
  create(Device &device, std::span<const LaneRow> rows);
  ~LanePacker();

  /// Packs `count` rows of kind `row` from device memory `from` to device
  /// memory `to`, in the stream of the device.
  Status pack(size_t row, uint64_t count, void *from, void *to);

  /// The same on a device that has the kernel already, whose `rows` are there.
  static Status launch(Device &device, const Kernel *kernel, const LaneRow &row,
                       void *deviceRow, uint64_t count, void *from, void *to);
  /// A row as the kernel wants it.
  static std::vector<uint32_t> describe(const LaneRow &row);

private:
  LanePacker(Device &device, std::span<const LaneRow> rows)
      : device(device), rows(rows.begin(), rows.end()) {}

  Device &device;
  std::vector<LaneRow> rows;
  const Kernel *kernel = nullptr;
  void *descriptions = nullptr; ///< of all rows
};

} // namespace ds4

#endif // DS4_RUNTIME_LANEPACKER_H
