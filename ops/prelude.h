// prelude.h - what a kernel may use: types, indices, cross-lane operations and
// exact arithmetic on every target. The only file with #if on the target,
// beside waves.h, which is a part of it, and tile_mma.h; it includes nothing
// but ours, since hipRTC and NVRTC have no system headers. Number code (exp,
// conversions) is in numbers.h, which comes last.
//
// A wave has 32 lanes everywhere. Cross-lane operations and barrier() must be
// reached by all lanes of the wave (block); the host reports it where they
// are not.
#ifndef DS4_OPS_PRELUDE_H
#define DS4_OPS_PRELUDE_H

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef unsigned long long u64;

#if defined(__CUDACC_RTC__)
#define __builtin_memcpy memcpy // as NVRTC calls it
#endif

#if defined(__AMDGCN__)
#define DS4_TARGET_AMD 1
#elif defined(__NVPTX__) || defined(__CUDA_ARCH__)
#define DS4_TARGET_NVIDIA 1
#else
#define DS4_TARGET_HOST 1
#include "host_abi.h"
#endif

//===----------------------------------------------------------------------===//
// Declarations
//===----------------------------------------------------------------------===//

// DS4_DEVICE before a function that kernels call; DS4_KERNEL(threads) before a
// kernel, whose arguments are pointers, or DS4_KERNEL(threads, blocks), which
// on NVIDIA leaves it registers for so many blocks a multiprocessor; DS4_SHARED
// before a local array of the block, uninitialised; DS4_TABLE before a global
// array of constants; DS4_ENTRY(symbol) once, after the kernel.
#if defined(DS4_TARGET_HOST)
#define DS4_DEVICE inline __attribute__((always_inline))
#define DS4_KERNEL(...) static inline
// A block runs on one thread from beginning to end.
#define DS4_SHARED static thread_local
#define DS4_TABLE static constexpr
#define DS4_ENTRY(symbol)                                                      \
  extern "C" __attribute__((visibility("default"))) void DS4_JOIN(             \
      symbol, _entry)(void *const *args) {                                     \
    call_kernel(symbol, args);                                                 \
  }
#define DS4_JOIN(a, b) DS4_JOIN_EXPANDED(a, b)
#define DS4_JOIN_EXPANDED(a, b) a##b

/// Calls `kernel` with the pointers in `args`, cast to its argument types.
template <typename... Args>
DS4_DEVICE void call_kernel(void (*kernel)(Args...), void *const *args) {
  struct Call {
    DS4_DEVICE Call(void (*function)(Args...), Args... values) {
      function(values...);
    }
  };
  const auto next = [&args] { return *args++; };
  // Only braces promise evaluation from left to right.
  Call{kernel, static_cast<Args>(next())...};
}
#else
#define DS4_ENTRY(symbol)
#define DS4_FIRST(first, ...) first
#if defined(__HIPCC_RTC__) || defined(__CUDACC_RTC__)
#define DS4_DEVICE __device__ __forceinline__
#if defined(__CUDACC_RTC__)
#define DS4_KERNEL(...) extern "C" __global__ __launch_bounds__(__VA_ARGS__)
#else // HIP counts waves, not blocks
#define DS4_KERNEL(...)                                                        \
  extern "C" __global__ __launch_bounds__(DS4_FIRST(__VA_ARGS__, ))
#endif
#define DS4_SHARED __shared__
#define DS4_TABLE static __device__ const
#else // clang without HIP or CUDA headers
#define DS4_DEVICE __attribute__((device)) inline __attribute__((always_inline))
#if defined(DS4_TARGET_AMD)
// What HIP's own __launch_bounds__ stands for: without it a kernel must fit
// blocks of 1024, which costs registers.
#define DS4_KERNEL(...)                                                        \
  extern "C" __attribute__((global))                                           \
  __attribute__((amdgpu_flat_work_group_size(1, DS4_FIRST(__VA_ARGS__, ))))
#else
#define DS4_KERNEL(...)                                                        \
  extern "C" __attribute__((global)) __attribute__((launch_bounds(__VA_ARGS__)))
#endif
#define DS4_SHARED __attribute__((shared))
#define DS4_TABLE static __attribute__((device)) const
#endif
#endif

// An array of bytes in LDS, 16-byte aligned, whose size the launch states
// (KernelSpec::sharedBytes): more than NVIDIA's compilers allow a static array.
// A kernel has one; several names are the same bytes.
#if defined(DS4_TARGET_HOST)
#define DS4_BLOCK_MEMORY(name, bytes)                                          \
  alignas(16) static thread_local u8 name[bytes]
#elif defined(__HIPCC_RTC__) || defined(__CUDACC_RTC__)
#define DS4_BLOCK_MEMORY(name, bytes)                                          \
  extern __shared__ __attribute__((aligned(16))) u8 name[]
#else
#define DS4_BLOCK_MEMORY(name, bytes)                                          \
  extern __attribute__((shared, aligned(16))) u8 name[]
#endif

// Before a short loop over neighbouring elements: to be done by vector
// instructions on the host, where clang would otherwise unroll it to scalars.
#if !defined(DS4_TARGET_HOST)
#define DS4_VECTORISE _Pragma("unroll")
#elif defined(__clang__)
#define DS4_VECTORISE _Pragma("clang loop unroll(disable) vectorize(enable)")
#else
#define DS4_VECTORISE
#endif

// Before a loop whose indices must be constants, so that arrays stay in
// registers. The host has a stack: there a loop is shorter.
#if !defined(DS4_TARGET_HOST)
#define DS4_REGISTERS _Pragma("unroll")
#elif defined(__clang__)
#define DS4_REGISTERS _Pragma("clang loop unroll(disable)")
#else
#define DS4_REGISTERS
#endif

// Before a loop whose iterations load from memory, so that the loads of n of
// them are on their way together. Half as many on AMD's chips, where a wave's
// registers for the other half would keep other waves away.
#if defined(DS4_TARGET_HOST)
#define DS4_PREFETCH(n)
#elif defined(DS4_TARGET_AMD)
#define DS4_PREFETCH(n) DS4_PRAGMA(unroll(n / 2))
#else
#define DS4_PREFETCH(n) DS4_PRAGMA(unroll n)
#endif
#define DS4_PRAGMA(text) _Pragma(#text)

// Before a loop that is to be unrolled n times; 1: not at all.
#if defined(DS4_TARGET_HOST)
#define DS4_UNROLL(n)
#else
#define DS4_UNROLL(n) DS4_PRAGMA(unroll(n))
#endif

constexpr u32 kWave = 32;

// Whether dot4 and pick_bytes are an instruction each, so that codes are best
// multiplied four at a time; the host does better with loops over elements.
// Bits of a selector of pick_bytes. Whether a shuffle is an instruction; on the
// host it is a switch of lanes.
// Whether products with subnormal floats are as fast as others.
// DS4_EMULATE_GPU: the host does as GPUs do, in tests.
#if defined(DS4_TARGET_HOST) && !defined(DS4_EMULATE_GPU)
constexpr bool kHasDot4 = false, kShufflesAreCheap = false,
               kSubnormalsAreFast = false;
#else
constexpr bool kHasDot4 = true, kShufflesAreCheap = true,
               kSubnormalsAreFast = true;
#endif
#if defined(DS4_TARGET_NVIDIA) || defined(DS4_EMULATE_GPU)
constexpr u32 kSelectorBits = 4;
#else
constexpr u32 kSelectorBits = 8;
#endif

//===----------------------------------------------------------------------===//
// Bits
//===----------------------------------------------------------------------===//

DS4_DEVICE u32 bits_of(float x) {
  u32 bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

DS4_DEVICE bool has_bit(u32 bits, u32 i) { return (bits & 1u << i) != 0; }

DS4_DEVICE float float_of(u32 bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}

/// Four bytes, little endian, at any address.
DS4_DEVICE u32 load_u32(const void *p) {
  u32 x;
  __builtin_memcpy(&x, p, 4);
  return x;
}

/// Two bytes, little endian, at any address.
DS4_DEVICE u16 load_u16(const void *p) {
  u16 x;
  __builtin_memcpy(&x, p, 2);
  return x;
}

// Types of one load each: a memcpy would be taken apart into loads of bytes,
// and each byte would take a register.
#if defined(__CUDACC_RTC__)
typedef uint2 Words2;
typedef uint4 Words4;
typedef u16 Half;
typedef u32 Word;
#else
typedef u32 Words2 __attribute__((vector_size(8), may_alias));
typedef u32 Words4 __attribute__((vector_size(16), may_alias));
typedef u16 Half __attribute__((may_alias));
typedef u32 Word __attribute__((may_alias));
#endif

template <typename T> DS4_DEVICE void load_as(u8 *to, const u8 *from) {
  const T value = *reinterpret_cast<const T *>(from);
  __builtin_memcpy(to, &value, sizeof value);
}

template <typename T> DS4_DEVICE void store_as(u8 *to, const u8 *from) {
  T value;
  __builtin_memcpy(&value, from, sizeof value);
  *reinterpret_cast<T *>(to) = value;
}

// copy_16, copy_4: copies so many bytes, at a multiple of them, from global
// memory to LDS. On NVIDIA the copy runs on by itself, without registers;
// copies_done() waits for those of the calling lane.
#if defined(DS4_TARGET_NVIDIA)
DS4_DEVICE u32 shared_address(const u8 *p) {
#if defined(__CUDACC_RTC__)
  return static_cast<u32>(__cvta_generic_to_shared(p));
#else
  return static_cast<u32>(
      reinterpret_cast<u64>((const __attribute__((address_space(3))) u8 *)p));
#endif
}
DS4_DEVICE void copy_16(u8 *to, const u8 *from) {
  asm volatile(
      "cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)),
      "l"(from)
      : "memory");
}
DS4_DEVICE void copy_4(float *to, const float *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(
                   shared_address(reinterpret_cast<const u8 *>(to))),
               "l"(from)
               : "memory");
}
DS4_DEVICE void copies_done() {
  asm volatile("cp.async.wait_all;" ::: "memory");
}
#else
DS4_DEVICE void copy_16(u8 *to, const u8 *from) { load_as<Words4>(to, from); }
DS4_DEVICE void copy_4(float *to, const float *from) { *to = *from; }
DS4_DEVICE void copies_done() {}
#endif
#if defined(DS4_TARGET_NVIDIA) || defined(DS4_EMULATE_GPU)
constexpr bool kCopiesRunOn = true;
#else
constexpr bool kCopiesRunOn = false;
#endif

/// Four bytes, little endian, at a multiple of 4.
DS4_DEVICE u32 load_word(const u8 *p) {
  return *reinterpret_cast<const Word *>(p);
}

/// Copies kBytes, a power of two up to 16, from an address that is a multiple
/// of it, with one load.
template <u32 kBytes> DS4_DEVICE void load_aligned(u8 *to, const u8 *from) {
  if constexpr (kBytes == 16)
    load_as<Words4>(to, from);
  else if constexpr (kBytes == 8)
    load_as<Words2>(to, from);
  else if constexpr (kBytes == 4)
    load_as<Word>(to, from);
  else if constexpr (kBytes == 2)
    load_as<Half>(to, from);
  else
    *to = *from;
}

/// The same to such an address, with one store.
template <u32 kBytes> DS4_DEVICE void store_aligned(u8 *to, const u8 *from) {
  if constexpr (kBytes == 16)
    store_as<Words4>(to, from);
  else if constexpr (kBytes == 8)
    store_as<Words2>(to, from);
  else
    store_as<Word>(to, from);
}

/// Neighbouring words, from and to an address that is a multiple of 16 bytes.
template <u32 n> DS4_DEVICE void load_words(u32 (&to)[n], const u8 *from) {
  static_assert(n % 4 == 0);
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += 4)
    load_aligned<16>(reinterpret_cast<u8 *>(to + i), from + 4 * i);
}
template <u32 n> DS4_DEVICE void store_words(u8 *to, const u32 (&from)[n]) {
  static_assert(n % 4 == 0);
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += 4)
    store_aligned<16>(to + 4 * i, reinterpret_cast<const u8 *>(from + i));
}

/// Neighbouring floats, from and to an address that is a multiple of 16 bytes
/// or, of fewer than 4 floats, of their size.
template <u32 n>
DS4_DEVICE void load_floats(const float *from, float (&to)[n]) {
  constexpr u32 kStep = n % 4 == 0 ? 4 : n;
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += kStep)
    load_aligned<4 * kStep>(reinterpret_cast<u8 *>(to + i),
                            reinterpret_cast<const u8 *>(from + i));
}
template <u32 n>
DS4_DEVICE void store_floats(float *to, const float (&from)[n]) {
  constexpr u32 kStep = n % 4 == 0 ? 4 : n;
  DS4_REGISTERS
  for (u32 i = 0; i < n; i += kStep)
    store_aligned<4 * kStep>(reinterpret_cast<u8 *>(to + i),
                             reinterpret_cast<const u8 *>(from + i));
}

/// Finishes what makes x before what follows begins. Where a long unrolled
/// sequence ends: the compiler would otherwise run many at once, out of
/// registers.
DS4_DEVICE void finish(float &x) {
#if defined(DS4_TARGET_AMD)
  asm volatile("" : "+v"(x));
  __builtin_amdgcn_sched_barrier(0);
#elif defined(DS4_TARGET_NVIDIA)
  asm volatile("" : "+f"(x));
#else
  (void)x;
#endif
}

/// Keeps what makes x above a branch that only some lanes take: compilers for
/// AMD's chips may move it to its only use there, where it cannot read lanes
/// that are off.
DS4_DEVICE void keep_here(float &x) {
#if defined(DS4_TARGET_AMD)
  asm volatile("" : "+v"(x));
#else
  (void)x;
#endif
}

//===----------------------------------------------------------------------===//
// Primitives of a target
//===----------------------------------------------------------------------===//

// thread_x, block_x, block_y; barrier; shfl_xor_u32, shfl_u32; fma_f32,
// div_f32, sqrt_f32, each rounded once; dot4(a, b, c): c + sum of a's four int8
// times b's; pick_bytes(low, high, s): byte k is that one of the eight of
// high:low which selector k of s says, 0 to 7 in kSelectorBits bits.
#if defined(DS4_TARGET_HOST)

DS4_DEVICE u32 thread_x() { return ds4::hostWave()->thread[ds4::hostStack()]; }
DS4_DEVICE u32 block_x() { return ds4::hostWave()->blockX; }
DS4_DEVICE u32 block_y() { return ds4::hostWave()->blockY; }
DS4_DEVICE void barrier() {
  ds4::HostWave *wave = ds4::hostWave();
  wave->api->barrier(wave);
}
DS4_DEVICE u32 shfl_u32(u32 value, u32 from) {
  ds4::HostWave *wave = ds4::hostWave();
  return wave->api->exchange(wave, value)[from % kWave];
}
DS4_DEVICE u32 shfl_xor_u32(u32 value, u32 mask) {
  return shfl_u32(value, thread_x() ^ mask);
}
DS4_DEVICE float fma_f32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
DS4_DEVICE float div_f32(float a, float b) { return a / b; }
DS4_DEVICE float sqrt_f32(float x) {
#if defined(__clang__)
  return __builtin_elementwise_sqrt(x); // without errno
#else
  return __builtin_sqrtf(x);
#endif
}
DS4_DEVICE i32 dot4(u32 a, u32 b, i32 c) {
  for (u32 shift = 0; shift < 32; shift += 8)
    c += static_cast<i8>(a >> shift) * static_cast<i8>(b >> shift);
  return c;
}
DS4_DEVICE u32 pick_bytes(u32 low, u32 high, u32 s) {
  u32 result = 0;
  for (u32 k = 0; k < 4; ++k) {
    const u32 from = s >> (kSelectorBits * k) & 7;
    result |= ((from < 4 ? low : high) >> (8 * (from & 3)) & 0xff) << (8 * k);
  }
  return result;
}

#elif defined(DS4_TARGET_AMD)

DS4_DEVICE u32 thread_x() { return __builtin_amdgcn_workitem_id_x(); }
DS4_DEVICE u32 block_x() { return __builtin_amdgcn_workgroup_id_x(); }
DS4_DEVICE u32 block_y() { return __builtin_amdgcn_workgroup_id_y(); }
DS4_DEVICE void barrier() {
  __builtin_amdgcn_fence(__ATOMIC_RELEASE, "workgroup");
  __builtin_amdgcn_s_barrier();
  __builtin_amdgcn_fence(__ATOMIC_ACQUIRE, "workgroup");
}
DS4_DEVICE u32 shfl_u32(u32 value, u32 from) {
  return static_cast<u32>(__builtin_amdgcn_ds_bpermute(
      static_cast<int>(from % kWave * 4), static_cast<int>(value)));
}
/// Of lane xor kMask, at most 8, inside a row of 16 lanes: a modifier of the
/// instruction that uses the value.
template <int kMask> DS4_DEVICE u32 row_xor(int value) {
  constexpr int kRowXmask = 0x160, kAllRows = 0xf, kAllBanks = 0xf;
  return static_cast<u32>(__builtin_amdgcn_mov_dpp(
      value, kRowXmask + kMask, kAllRows, kAllBanks, /*bound_ctrl=*/true));
}
DS4_DEVICE u32 shfl_xor_u32(u32 value, u32 mask) {
  const int x = static_cast<int>(value);
  switch (mask) { // a constant wherever it is called
  case 1:
    return row_xor<1>(x);
  case 2:
    return row_xor<2>(x);
  case 4:
    return row_xor<4>(x);
  case 8:
    return row_xor<8>(x);
  case 16: // not permlanex16: LLVM 17 and 19 move it under divergent branches
    return static_cast<u32>(__builtin_amdgcn_ds_swizzle(x, 16 << 10 | 31));
  }
  return shfl_u32(value, __builtin_amdgcn_mbcnt_lo(~0u, 0u) ^ mask);
}
DS4_DEVICE float fma_f32(float a, float b, float c) {
  return __builtin_fmaf(a, b, c);
}
DS4_DEVICE float div_f32(float a, float b) { return a / b; }
DS4_DEVICE float sqrt_f32(float x) { return __builtin_sqrtf(x); }
DS4_DEVICE i32 dot4(u32 a, u32 b, i32 c) {
  return __builtin_amdgcn_sudot4(true, static_cast<int>(a), true,
                                 static_cast<int>(b), c, false);
}
DS4_DEVICE u32 pick_bytes(u32 low, u32 high, u32 s) {
  return __builtin_amdgcn_perm(high, low, s);
}

#elif defined(__CUDACC_RTC__)

DS4_DEVICE u32 thread_x() { return threadIdx.x; }
DS4_DEVICE u32 block_x() { return blockIdx.x; }
DS4_DEVICE u32 block_y() { return blockIdx.y; }
DS4_DEVICE void barrier() { __syncthreads(); }
DS4_DEVICE u32 shfl_u32(u32 value, u32 from) {
  return __shfl_sync(0xffffffffu, value, static_cast<int>(from));
}
DS4_DEVICE u32 shfl_xor_u32(u32 value, u32 mask) {
  return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
}
DS4_DEVICE float fma_f32(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
DS4_DEVICE float div_f32(float a, float b) { return __fdiv_rn(a, b); }
DS4_DEVICE float sqrt_f32(float x) { return __fsqrt_rn(x); }
DS4_DEVICE i32 dot4(u32 a, u32 b, i32 c) {
  return __dp4a(static_cast<int>(a), static_cast<int>(b), c);
}
DS4_DEVICE u32 pick_bytes(u32 low, u32 high, u32 s) {
  u32 result;
  asm("prmt.b32 %0,%1,%2,%3;" : "=r"(result) : "r"(low), "r"(high), "r"(s));
  return result;
}

#else // NVIDIA, clang without CUDA headers

DS4_DEVICE u32 thread_x() { return __nvvm_read_ptx_sreg_tid_x(); }
DS4_DEVICE u32 block_x() { return __nvvm_read_ptx_sreg_ctaid_x(); }
DS4_DEVICE u32 block_y() { return __nvvm_read_ptx_sreg_ctaid_y(); }
DS4_DEVICE void barrier() { __nvvm_bar_sync(0); }
DS4_DEVICE u32 shfl_u32(u32 value, u32 from) {
  return static_cast<u32>(__nvvm_shfl_sync_idx_i32(
      0xffffffffu, static_cast<int>(value), static_cast<int>(from), 31));
}
DS4_DEVICE u32 shfl_xor_u32(u32 value, u32 mask) {
  return static_cast<u32>(__nvvm_shfl_sync_bfly_i32(
      0xffffffffu, static_cast<int>(value), static_cast<int>(mask), 31));
}
DS4_DEVICE float fma_f32(float a, float b, float c) {
  return __nvvm_fma_rn_f(a, b, c);
}
DS4_DEVICE float div_f32(float a, float b) { return __nvvm_div_rn_f(a, b); }
DS4_DEVICE float sqrt_f32(float x) { return __nvvm_sqrt_rn_f(x); }
DS4_DEVICE i32 dot4(u32 a, u32 b, i32 c) {
  i32 result;
  asm("dp4a.s32.s32 %0,%1,%2,%3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
DS4_DEVICE u32 pick_bytes(u32 low, u32 high, u32 s) {
  u32 result;
  asm("prmt.b32 %0,%1,%2,%3;" : "=r"(result) : "r"(low), "r"(high), "r"(s));
  return result;
}

#endif

// A sum of dot4 that begins at kSumZero is sum_value as a float, exactly if it
// is below 2^22. On NVIDIA the bits of 1.5 * 2^23 + sum, as a conversion has
// half the rate of a subtraction.
#if defined(DS4_TARGET_NVIDIA)
constexpr i32 kSumZero = 0x4b400000;
DS4_DEVICE float sum_value(i32 sum) {
  return float_of(static_cast<u32>(sum)) - 12582912.0f;
}
#else
constexpr i32 kSumZero = 0;
DS4_DEVICE float sum_value(i32 sum) { return static_cast<float>(sum); }
#endif

/// A barrier of the wave: what its lanes wrote to LDS is visible to them.
DS4_DEVICE void wave_barrier() {
#if defined(DS4_TARGET_HOST)
  (void)shfl_u32(0, 0);
#elif defined(DS4_TARGET_AMD)
  __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
  __builtin_amdgcn_wave_barrier();
#else
  asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
#endif
}

/// A barrier of the `threads` threads of the block that come with this `id`,
/// 1 to 15; where there is no such thing of all threads, which all come then.
DS4_DEVICE void barrier_of(u32 id, u32 threads) {
#if defined(DS4_TARGET_NVIDIA)
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
  (void)id, (void)threads;
  barrier();
#endif
}

//===----------------------------------------------------------------------===//
// Threads of a block, blocks of a launch
//===----------------------------------------------------------------------===//

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

#include "waves.h"

#include "numbers.h"

/// Values of the E4M3 codes in the bytes of `four`, none a NaN.
DS4_DEVICE void e4m3_values(u32 four, float (&values)[4]) {
#if defined(DS4_TARGET_NVIDIA)
  u32 pair[2];
  asm("{.reg .b16 l, h; mov.b32 {l, h}, %2;\n\t"
      "cvt.rn.f16x2.e4m3x2 %0, l; cvt.rn.f16x2.e4m3x2 %1, h;}"
      : "=r"(pair[0]), "=r"(pair[1])
      : "r"(four));
  for (u32 i = 0; i < 2; ++i)
    asm("{.reg .b16 l, h; mov.b32 {l, h}, %2;\n\t"
        "cvt.f32.f16 %0, l; cvt.f32.f16 %1, h;}"
        : "=f"(values[2 * i]), "=f"(values[2 * i + 1])
        : "r"(pair[i]));
#else
  // A subnormal float times a power of two.
  for (u32 i = 0; i < 4; ++i) {
    const u32 code = four >> (8 * i);
    values[i] =
        float_of((code & 0x80u) << 24 | (code & 0x7fu) << 20) * 0x1p120f;
  }
#endif
}

/// Value of the binary16 at any address; exact.
DS4_DEVICE float load_f16(const void *p) {
#if defined(__F16C__)
  _Float16 x; // same bits, one instruction
  __builtin_memcpy(&x, p, 2);
  return static_cast<float>(x);
#else
  return f32_from_f16(load_u16(p));
#endif
}

#endif // DS4_OPS_PRELUDE_H
