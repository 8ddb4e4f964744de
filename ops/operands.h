// operands.h - sizes of what products multiply. Constants that codegen prints:
// kIn (columns), kInt8 (the vector is int8 codes and scales), kBookLevels
// (levels of a learned book; 0: the format has none).
/// Bytes of a vector of the activations: f32 values, or codes and scales.
constexpr u32 kVectorBytes = kInt8 ? kIn + kIn / 32 * 4 : kIn * 4;

/// Bytes of an expert's two learned books: f32 levels, or int8 levels and an
/// f32 scale behind each book.
constexpr u32 kBookBytes =
    kBookLevels == 0 ? 0 : 2 * (kInt8 ? kBookLevels + 4 : 4 * kBookLevels);
