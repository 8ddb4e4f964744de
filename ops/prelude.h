// prelude.h - what a kernel may use: types, indices, cross-lane operations and
// exact arithmetic on every target. The only file with #if on the target,
// beside its parts (loads.h, launch.h, waves.h) and tile_mma.h; it includes
// nothing but ours, since hipRTC and NVRTC have no system headers. Number code
// (exp, conversions) is in numbers.h, which comes last.
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

#include "loads.h"

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

#include "launch.h"

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
