// SessionState.cpp - moving a session's sequence to another position: back,
// out and in. Rows at or after the position stay where they are; nobody reads
// them before they are written again.
#include "runtime/Session.h"

#include <fmt/format.h>

#include <algorithm>

namespace ds4 {

Status Session::reach(uint32_t position) const {
  if (position > currentPosition)
    return invalidInput(fmt::format(
        "cannot roll forward to position {}, the sequence has {} tokens",
        position, currentPosition));
  if (position == 0)
    return Status::ok();
  if (position + mostRollback() < highWater)
    return invalidInput(fmt::format(
        "cannot roll back to position {} after position {} was written: at "
        "most {} tokens can be taken back; roll back to 0 and process the "
        "tokens again",
        position, highWater, mostRollback()));
  if (position < restoredPosition)
    return invalidInput(fmt::format(
        "cannot roll back to position {}: the sequence was restored at "
        "position {} without what earlier tokens need; save at the position "
        "that is wanted",
        position, restoredPosition));
  return Status::ok();
}

Status Session::rollback(uint32_t position) {
  DS4_TRY(reach(position));
  currentPosition = position;
  if (position == 0)
    highWater = restoredPosition = 0;
  return Status::ok();
}

Result<std::vector<std::byte>> Session::save(uint32_t position) {
  DS4_TRY(reach(position));
  DS4_TRY(device->synchronize());
  return sequence.save(*device, position);
}

Status Session::restore(std::span<const std::byte> saved,
                        std::string_view where) {
  DS4_TRY(device->synchronize());
  Result<uint32_t> position = sequence.restore(*device, saved, where);
  if (!position) {
    // Rows may be of both sequences if the device failed.
    if (position.error().code == ErrorCode::deviceError)
      DS4_TRY(rollback(0));
    return position.error();
  }
  currentPosition = highWater = restoredPosition = *position;
  return Status::ok();
}

Status Session::fork(Session &from, uint32_t position) {
  DS4_ASSIGN(std::vector<std::byte> saved, from.save(position));
  return restore(saved, "the sequence to fork");
}

} // namespace ds4
