// HostLanes.cpp - the scheduling of lanes. Each wave has a region: 32 stacks
// side by side and, in front, the state that its lanes share (ops/host_abi.h).
//
// Lanes of a wave take turns in a ring: a lane that must wait switches to the
// next one, so by the time the turn comes back everyone has arrived, and the
// lane that arrives last goes on without a switch. Waves take turns in the same
// way at barriers. Lanes that never wait run one after another on one stack,
// and so do waves. All this relies on what the kernels promise, that either all
// or none of a wave's lanes (a block's waves) meet; what breaks the promise is
// seen at the next meeting or return, and reported.
#include "runtime/HostLanes.h"

#include "ops/host_abi.h"

#include <boost/context/detail/fcontext.hpp>
#include <fmt/format.h>
#include <sys/mman.h>

#include <array>
#include <bit>
#include <cstring>
#include <new>
#include <string>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define DS4_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define DS4_ASAN 1
#endif
#endif
#if defined(DS4_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace ds4 {
namespace {

using boost::context::detail::fcontext_t;
using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

constexpr uint32_t kWave = kHostWave;
constexpr size_t kPageBytes = 4096;

/// Where lanes meet.
enum class Meeting : uint32_t {
  exchange,
  waveSum,
  segmentSum,
  waveSums,
  segmentSums,
  barrier
};

const char *meetingName(Meeting meeting) {
  switch (meeting) {
  case Meeting::exchange:
    return "a shuffle";
  case Meeting::waveSum:
    return "wave_sum";
  case Meeting::segmentSum:
    return "segment_sum";
  case Meeting::waveSums:
    return "wave_sums";
  case Meeting::segmentSums:
    return "segment_sums";
  case Meeting::barrier:
    return "barrier";
  }
  return "";
}

/// A context that can be switched to, and what ASan wants to know of it.
struct Context {
  fcontext_t fiber = nullptr;
#if defined(DS4_ASAN)
  const void *stackBottom = nullptr;
  size_t stackBytes = 0;
#endif
};

/// Keeps where the lane that switched to us can be resumed. `fakeStack` is
/// what ASan saved when the calling lane left its stack, null on a fresh one.
void arriveFrom(transfer_t transfer, [[maybe_unused]] void *fakeStack) {
  Context &source = *static_cast<Context *>(transfer.data);
  source.fiber = transfer.fctx;
#if defined(DS4_ASAN)
  __sanitizer_finish_switch_fiber(fakeStack, &source.stackBottom,
                                  &source.stackBytes);
#endif
}

/// Leaves `from`, which the current lane runs on, for `to`; returns when
/// someone switches back. Inlined, as is meet(): after a switch the processor
/// mispredicts every return, about 5 ns each (measured, 15 ns a switch in all).
[[gnu::always_inline]] inline void switchTo(Context &from, Context &to) {
  void *fakeStack = nullptr;
#if defined(DS4_ASAN)
  __sanitizer_start_switch_fiber(&fakeStack, to.stackBottom, to.stackBytes);
#endif
  arriveFrom(jump_fcontext(to.fiber, &from), fakeStack);
}

struct Block;

/// State in front of a wave's stacks.
struct Wave : HostWave {
  /// What lanes gave and what they get; two sets, since a lane may already
  /// be in the next round while others still read the last.
  uint32_t given[2][kWave];
  float sums[2][kWave];
  const float *givenEight[kWave];
  Context contexts[kWave];
  Block *block;
  uint32_t number; ///< of the wave in its block
  uint32_t started, finished;
  uint32_t round;   ///< meetings so far
  uint32_t arrived; ///< lanes at the current one
  Meeting meeting;
  uint32_t resumeStack; ///< where to go on after a barrier

  /// Adds the calling lane to the current round; true if it is the last, who
  /// must do the round's work. Others return once that is done.
  [[gnu::always_inline]] inline bool meet(Meeting where);
};
static_assert(sizeof(Wave) <= kPageBytes);

/// What runs now: one block, its waves' regions.
struct Block {
  HostEntry entry;
  void *const *args;
  uint32_t blockX, blockY;
  uint32_t waveCount = 0;
  uint32_t wavesStarted = 0, wavesFinished = 0, wavesArrived = 0;
  std::array<Wave *, kMaxHostBlock / kWave> waves{};
  /// Regions; those from `used` on are free.
  std::vector<Wave *> regions;
  size_t used = 0;
  Context scheduler;
  std::string misuse;

  /// Ends the block with an error; never returns to the lane.
  [[noreturn]] void fail(Wave &wave, std::string text);
  /// Another wave's turn, after `wave` arrived at a barrier or finished.
  void switchWave(Wave &wave, uint32_t stack);
  Wave *takeRegion();
  void startWave(Wave &wave);
};

uint32_t nextStack(uint32_t stack) { return (stack + 1) % kWave; }

void Block::fail(Wave &wave, std::string text) {
  misuse = std::move(text);
  switchTo(wave.contexts[hostStack()], scheduler);
  __builtin_unreachable();
}

void Block::startWave(Wave &wave) {
  wave.number = wavesStarted++;
  wave.started = wave.finished = wave.arrived = 0;
  waves[wave.number] = &wave;
}

bool Wave::meet(Meeting where) {
  if (finished)
    block->fail(*this, fmt::format("lanes of wave {} of block ({}, {}) wait at "
                                   "{} although others have returned",
                                   number, blockX, blockY, meetingName(where)));
  if (arrived == 0)
    meeting = where;
  else if (meeting != where)
    block->fail(*this, fmt::format("lanes of wave {} of block ({}, {}) wait at "
                                   "{} while others wait at {}",
                                   number, blockX, blockY, meetingName(where),
                                   meetingName(meeting)));
  if (++arrived == kWave) {
    arrived = 0;
    ++round;
    return true;
  }
  const uint32_t stack = hostStack();
  switchTo(contexts[stack], contexts[nextStack(stack)]);
  return false;
}

void Block::switchWave(Wave &wave, uint32_t stack) {
  Context &self = wave.contexts[stack];
  if (wavesFinished == waveCount)
    return switchTo(self, scheduler);
  if (wavesStarted < waveCount) {
    Wave *fresh = takeRegion();
    startWave(*fresh);
    return switchTo(self, fresh->contexts[0]);
  }
  Wave &next = *waves[(wave.number + 1) % waveCount];
  switchTo(self, next.contexts[next.resumeStack]);
}

//===----------------------------------------------------------------------===//
// What kernels call
//===----------------------------------------------------------------------===//

const unsigned *exchange(HostWave *shared, unsigned value) {
  Wave &wave = *static_cast<Wave *>(shared);
  uint32_t *given = wave.given[wave.round % 2];
  given[wave.thread[hostStack()] % kWave] = value;
  wave.meet(Meeting::exchange);
  return given;
}

/// Sums of groups of 8 by lane xor 1, 2, 4: the balanced tree of neighbours,
/// since a sum of two has the same bits in either order.
void sumGroups(const uint32_t (&given)[kWave], float (&sums)[kWave]) {
  float values[kWave];
  std::memcpy(values, given, sizeof values);
  for (uint32_t i = 0; i < kWave / 8; ++i) {
    const float *v = values + 8 * i;
    sums[i] = ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]));
  }
}

float segmentSum(HostWave *shared, float value) {
  Wave &wave = *static_cast<Wave *>(shared);
  const uint32_t lane = wave.thread[hostStack()] % kWave, set = wave.round % 2;
  wave.given[set][lane] = std::bit_cast<uint32_t>(value);
  if (wave.meet(Meeting::segmentSum))
    sumGroups(wave.given[set], wave.sums[set]);
  return wave.sums[set][lane / 8];
}

float waveSum(HostWave *shared, float value) {
  Wave &wave = *static_cast<Wave *>(shared);
  const uint32_t lane = wave.thread[hostStack()] % kWave, set = wave.round % 2;
  float(&sums)[kWave] = wave.sums[set];
  wave.given[set][lane] = std::bit_cast<uint32_t>(value);
  if (wave.meet(Meeting::waveSum)) {
    sumGroups(wave.given[set], sums);
    sums[0] = (sums[0] + sums[1]) + (sums[2] + sums[3]);
  }
  return sums[0];
}

/// Group sums of each lane's eight values: sums[8 g + r] is that of values[r]
/// over group g. The lanes' own arrays are read, since none of them goes on
/// before the last has arrived.
void sumEights(const float *const (&given)[kWave], float (&sums)[kWave]) {
  for (uint32_t group = 0; group < kWave; group += 8) {
    const float *const *v = given + group;
    for (uint32_t r = 0; r < 8; ++r)
      sums[group + r] = ((v[0][r] + v[1][r]) + (v[2][r] + v[3][r])) +
                        ((v[4][r] + v[5][r]) + (v[6][r] + v[7][r]));
  }
}

float segmentSums(HostWave *shared, const float *values) {
  Wave &wave = *static_cast<Wave *>(shared);
  const uint32_t lane = wave.thread[hostStack()] % kWave, set = wave.round % 2;
  wave.givenEight[lane] = values;
  if (wave.meet(Meeting::segmentSums))
    sumEights(wave.givenEight, wave.sums[set]);
  return wave.sums[set][lane];
}

float waveSums(HostWave *shared, const float *values) {
  Wave &wave = *static_cast<Wave *>(shared);
  const uint32_t lane = wave.thread[hostStack()] % kWave, set = wave.round % 2;
  float(&sums)[kWave] = wave.sums[set];
  wave.givenEight[lane] = values;
  if (wave.meet(Meeting::waveSums)) {
    sumEights(wave.givenEight, sums);
    for (uint32_t r = 0; r < 8; ++r)
      sums[r] = (sums[r] + sums[8 + r]) + (sums[16 + r] + sums[24 + r]);
  }
  return sums[lane % 8];
}

void barrier(HostWave *shared) {
  Wave &wave = *static_cast<Wave *>(shared);
  Block &block = *wave.block;
  if (!wave.meet(Meeting::barrier))
    return;
  if (block.wavesFinished)
    block.fail(wave, fmt::format("waves of block ({}, {}) wait at barrier "
                                 "although others have returned",
                                 block.blockX, block.blockY));
  if (++block.wavesArrived == block.waveCount) {
    block.wavesArrived = 0;
    return;
  }
  wave.resumeStack = hostStack();
  block.switchWave(wave, wave.resumeStack);
}

constexpr HostApi kApi = {exchange, waveSum,     segmentSum,
                          waveSums, segmentSums, barrier};

/// Runs lanes on the calling stack as long as none has to wait; then it is
/// another stack's turn.
void runLanes(Wave &wave, uint32_t stack) {
  Block &block = *wave.block;
  for (;;) {
    wave.thread[stack] = wave.number * kWave + wave.started++;
    block.entry(block.args);
    if (wave.arrived)
      block.fail(wave, fmt::format("a lane of wave {} of block ({}, {}) "
                                   "returned while others wait at {}",
                                   wave.number, block.blockX, block.blockY,
                                   meetingName(wave.meeting)));
    ++wave.finished;
    if (wave.started < kWave)
      continue;
    if (wave.finished < kWave)
      return switchTo(wave.contexts[stack], wave.contexts[nextStack(stack)]);
    if (block.wavesArrived)
      block.fail(wave, fmt::format("wave {} of block ({}, {}) returned while "
                                   "others wait at barrier",
                                   wave.number, block.blockX, block.blockY));
    ++block.wavesFinished;
    if (block.wavesStarted == block.waveCount)
      return block.switchWave(wave, stack);
    // No wave has waited at a barrier so far: the next one can have this
    // region, whose other stacks are idle.
    block.startWave(wave);
  }
}

void stackMain(transfer_t from) {
  arriveFrom(from, nullptr);
  Wave &wave = *static_cast<Wave *>(hostWave());
  const uint32_t stack = hostStack();
  for (;;)
    runLanes(wave, stack);
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

/// Gives every stack of the region a fresh context.
void resetRegion(Wave &wave) {
  char *region = reinterpret_cast<char *>(&wave);
  wave.round = 0;
  for (uint32_t stack = 0; stack < kWave; ++stack) {
    // Stack 0 has the shared state's page in front of its guard page. The
    // tops differ by two cache lines, lest all stacks' hot lines fall into
    // the same sets.
    char *bottom = region + stack * kHostStackBytes +
                   (stack == 0 ? 2 * kPageBytes : kPageBytes);
    char *top = region + (stack + 1) * kHostStackBytes - 128 * stack;
    Context &context = wave.contexts[stack];
    context = {};
    context.fiber =
        make_fcontext(top, static_cast<size_t>(top - bottom), stackMain);
#if defined(DS4_ASAN)
    context.stackBottom = bottom;
    context.stackBytes = static_cast<size_t>(top - bottom);
    __asan_unpoison_memory_region(bottom, context.stackBytes);
#endif
  }
}

/// A new region, or null without memory.
Wave *makeRegion(Block &block) {
  const size_t bytes = 2 * kHostRegionBytes;
  void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return nullptr;
  char *begin = static_cast<char *>(memory);
  const size_t skipped =
      -reinterpret_cast<uintptr_t>(begin) & (kHostRegionBytes - 1);
  char *region = begin + skipped;
  if (skipped)
    munmap(begin, skipped);
  munmap(region + kHostRegionBytes, kHostRegionBytes - skipped);
  for (uint32_t stack = 0; stack < kWave; ++stack)
    mprotect(region + stack * kHostStackBytes + (stack == 0 ? kPageBytes : 0),
             kPageBytes, PROT_NONE);
  Wave *wave = new (region) Wave{};
  wave->block = &block;
  wave->api = &kApi;
  resetRegion(*wave);
  return wave;
}

Wave *Block::takeRegion() {
  Wave &wave = *regions[used++];
  wave.blockX = blockX;
  wave.blockY = blockY;
  return &wave;
}

} // namespace

//===----------------------------------------------------------------------===//
// HostLanes
//===----------------------------------------------------------------------===//

struct HostLanes::Impl : Block {};

HostLanes::HostLanes() : impl(std::make_unique<Impl>()) {}

HostLanes::~HostLanes() {
  for (Wave *wave : impl->regions)
    munmap(wave, kHostRegionBytes);
}

Status HostLanes::runBlock(HostEntry entry, void *const *args, uint32_t threads,
                           uint32_t blockX, uint32_t blockY) {
  Block &block = *impl;
  block.entry = entry;
  block.args = args;
  block.blockX = blockX;
  block.blockY = blockY;
  block.waveCount = threads / kWave;
  block.wavesStarted = block.wavesFinished = block.wavesArrived = 0;
  block.used = 0;
  // A kernel without barriers needs one region; which kernels have some is not
  // known, so address space is reserved for all waves. Pages come when used.
  while (block.regions.size() < block.waveCount) {
    Wave *wave = makeRegion(block);
    if (!wave)
      return Error{ErrorCode::outOfMemory, "no address space for the stacks of "
                                           "the lanes"};
    block.regions.push_back(wave);
  }
  Wave *first = block.takeRegion();
  block.startWave(*first);
  switchTo(block.scheduler, first->contexts[0]);
  if (block.misuse.empty())
    return Status::ok();
  for (size_t i = 0; i < block.used; ++i)
    resetRegion(*block.regions[i]);
  return Error{ErrorCode::deviceError, std::exchange(block.misuse, {})};
}

} // namespace ds4
