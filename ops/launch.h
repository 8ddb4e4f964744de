// launch.h - a part of the prelude: threads and waves of a block, the step that
// a launch does (layouts: runtime/BundleFormat.h; domains: ir/Ds4Dialect.td),
// LDS, and how blocks wait for launches and for one another.
#ifndef DS4_OPS_LAUNCH_H
#define DS4_OPS_LAUNCH_H

DS4_DEVICE u32 lane() { return thread_x() % kWave; }
DS4_DEVICE u32 wave() { return thread_x() / kWave; }

/// x, of which the compiler does not see that it is a constant: for NVIDIA it
/// would put one that is used often into a register anew each time.
DS4_DEVICE u32 kept_constant(u32 x) {
#if defined(DS4_TARGET_NVIDIA)
  return x + ((block_x() + thread_x()) >> 27); // grids are smaller
#else
  return x;
#endif
}

/// Adds 1 to a count in LDS that other threads of the block count in too.
DS4_DEVICE void count_shared(u32 *count) {
#if defined(DS4_TARGET_HOST)
  ++*count; // the lanes of a block take turns on one thread
#elif defined(__CUDACC_RTC__)
  atomicAdd(count, 1u);
#else
  __atomic_fetch_add(count, 1u, __ATOMIC_RELAXED);
#endif
}

/// Adds 1 to a count that other blocks count in too; returns what it was.
DS4_DEVICE u32 count_device(u32 *count) {
#if defined(__CUDACC_RTC__)
  return atomicAdd(count, 1u);
#else
  return __atomic_fetch_add(count, 1u, __ATOMIC_ACQ_REL);
#endif
}

/// A count as other blocks have left it.
DS4_DEVICE u32 load_device(const u32 *count) {
#if defined(__CUDACC_RTC__)
  return *static_cast<const volatile u32 *>(count);
#else
  return __atomic_load_n(count, __ATOMIC_RELAXED);
#endif
}

/// What this thread wrote before is visible to the device before what it writes
/// after; what it reads after is what others wrote before theirs.
DS4_DEVICE void device_fence() {
#if defined(DS4_TARGET_AMD)
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "agent");
#elif defined(__CUDACC_RTC__)
  __threadfence();
#else
  __atomic_thread_fence(__ATOMIC_ACQ_REL);
#endif
}

/// Balanced sum of neighbours: the end of both declared orders.
DS4_DEVICE float tree8(const float (&p)[8]) {
  return ((p[0] + p[1]) + (p[2] + p[3])) + ((p[4] + p[5]) + (p[6] + p[7]));
}

/// a > b ? a : b, the max of every op.
/// b if one of them is a NaN.
DS4_DEVICE float max_f32(float a, float b) { return a > b ? a : b; }

//===----------------------------------------------------------------------===//
// The step (layouts: runtime/BundleFormat.h; domains: ir/Ds4Dialect.td)
//===----------------------------------------------------------------------===//

struct Step {
  i32 start, count, outputs, reserved;
};

struct StepStatus {
  u32 launch, row;
};

/// Rows of the domain `ratio` in this step: 1 tokens, 0 outputs, else windows.
DS4_DEVICE u32 row_count(u32 ratio, const Step *step) {
  if (ratio == 0)
    return static_cast<u32>(step->outputs);
  const u32 start = static_cast<u32>(step->start);
  const u32 end = start + static_cast<u32>(step->count);
  return end / ratio - start / ratio;
}

/// Number of row i: its position for tokens, its window for windows, its
/// index among the step's tokens for outputs.
DS4_DEVICE u32 row_number(u32 ratio, const Step *step, u32 i) {
  if (ratio == 0)
    return static_cast<u32>(step->count - step->outputs) + i;
  return static_cast<u32>(step->start) / ratio + i;
}

/// Position of row i of tokens or windows in the sequence.
DS4_DEVICE u32 row_position(u32 ratio, const Step *step, u32 i) {
  return row_number(ratio, step, i) * ratio;
}

/// A kernel's argument as whatever pointer a body takes.
struct AnyPointer {
  void *address;
  template <typename T> DS4_DEVICE operator T *() const {
    return static_cast<T *>(address);
  }
};

/// LDS of the block. Who asks for as many bytes gets the same ones: the bodies
/// of a launch, of which a block runs one or, with barriers between, several.
template <u32 kBytes> DS4_DEVICE u8 *shared_bytes() {
  alignas(16) DS4_SHARED u8 bytes[kBytes];
  return bytes;
}

/// What launches before this one wrote is there when this returns. Every block
/// comes here; before, it may read weights and the step, and nothing else.
DS4_DEVICE void wait_for_previous() {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// The launch behind this one may begin, and come to its wait_for_previous().
DS4_DEVICE void let_next_begin() {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

/// Whether the calling block is the last of `blocks` that come here, and what
/// the others wrote before they came is visible to it. `ticket` is 0 before and
/// after; all threads of a block come together.
DS4_DEVICE bool last_block(u32 *ticket, u32 blocks) {
  DS4_SHARED u32 before;
  device_fence();
  barrier();
  if (thread_x() == 0)
    before = count_device(ticket);
  barrier();
  if (before != blocks - 1)
    return false;
  device_fence();
  if (thread_x() == 0)
    *ticket = 0;
  return true;
}

/// What a block does of the rows that come last: `first` and every `step`-th
/// behind it; step 0: none.
struct LastRows {
  u32 first, step;
};

/// When all of `blocks` blocks have come here, the `helpers` that came last
/// share what is to do then; they wait for one another, fewer than are there at
/// once on any GPU. What the others wrote before they came is visible to them.
/// `ticket` is 0 before and after; all threads of a block come together.
DS4_DEVICE LastRows last_blocks(u32 *ticket, u32 blocks, u32 helpers) {
#if defined(DS4_TARGET_HOST)
  // Blocks may run one after another, and none can wait.
  (void)helpers;
  return {0, last_block(ticket, blocks) ? 1u : 0u};
#else
  DS4_SHARED u32 before;
  device_fence();
  barrier();
  if (thread_x() == 0) {
    before = count_device(ticket);
    if (before >= blocks - helpers) {
      while (load_device(ticket) < blocks) {
      }
      if (count_device(ticket) == blocks + helpers - 1)
        *ticket = 0; // nobody looks at it any more
    }
  }
  barrier();
  if (before < blocks - helpers)
    return {0, 0};
  device_fence();
  return {before - (blocks - helpers), helpers};
#endif
}

/// A selection met a NaN in row `row`. Any such row may stay: several blocks
/// may report, and the runtime refuses the step whichever it names.
DS4_DEVICE void report_nan(StepStatus *status, u32 row) {
#if defined(__CUDACC_RTC__)
  *static_cast<volatile u32 *>(&status->row) = row;
  *static_cast<volatile u32 *>(&status->launch) = 1;
#else
  __atomic_store_n(&status->row, row, __ATOMIC_RELAXED);
  __atomic_store_n(&status->launch, 1u, __ATOMIC_RELAXED);
#endif
}

#endif // DS4_OPS_LAUNCH_H
