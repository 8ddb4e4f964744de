// Shape.h - the header of a model file without the file: metadata, tensor table
// and size from a short JSON description, so that a model of any size can be
// compiled and measured where it is not.
//
//   {
//     "about": "one sentence for readers",
//     "base": "v4-flash-strix",           optional: start from this shape
//     "metadata": {"deepseek4.block_count": 43, ...},
//     "groups": [{"layers": "2-42/2, 7",  without it: outside the layers
//                 "tensors": {"attn_kv.weight": ["q8_0", 4096, 512], ...}},
//                ...],
//     "totals": {"tensors": 1328, "data_bytes": N, "file_bytes": N}
//   }
//
// A tensor is its format and its dimensions, fastest first. In a group with
// layers its name gets the prefix "blk.N.". A metadata key or tensor that is
// named again replaces the earlier one. Integers become u32 (arrays i32), other
// numbers f32. Totals are checked: data_bytes covers all tensors with padding,
// file_bytes is the real file's.
#ifndef DS4_MODELS_SHAPE_H
#define DS4_MODELS_SHAPE_H

#include "runtime/GgufWriter.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace ds4 {

/// "v4-flash-mix, v4-flash-strix": the shapes in this program, for messages.
std::string shapeNames();

/// The header that a built-in shape or a shape file describes; its path() is
/// "shape NAME". It has no tokenizer, and its fingerprint is no model file's.
/// A base is built in or lies beside the file. Errors name file and field.
Result<Gguf> openShape(const std::string &nameOrFile);

/// The same as a file to write, its tensors without data. `layers` keeps only
/// the first so many layers; 0: all. Error besides: the shape has fewer.
Result<GgufWriter> openShapeWriter(const std::string &nameOrFile,
                                   uint32_t layers);

/// The same from text; bases that are not built in lie in `folder`.
Result<Gguf> parseShape(std::string_view json, const std::string &name,
                        const std::filesystem::path &folder);

} // namespace ds4

#endif // DS4_MODELS_SHAPE_H
