// loads.h - a part of the prelude: bits, loads and stores of given widths, and
// copies from memory to LDS.
#ifndef DS4_OPS_LOADS_H
#define DS4_OPS_LOADS_H

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

#endif // DS4_OPS_LOADS_H
