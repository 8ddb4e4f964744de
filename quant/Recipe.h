// Recipe.h - which tensor of a file gets which format: an ordered list of
// patterns in TOML, the first that matches decides. Knows no encoder.
#ifndef DS4_QUANT_RECIPE_H
#define DS4_QUANT_RECIPE_H

#include "runtime/Gguf.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ds4::quant {

/// A recipe file:
///
///     file_type = 119                     # optional: general.file_type
///     types = [
///       ["blk.*.ffn_down_exps.weight", "q3_0_rocmfpx"],
///       ["*", "keep"],
///     ]
///
/// Patterns are shell globs over whole tensor names. A type is a name or id
/// of runtime/WeightFormats.h, or "keep". Tensors that nothing matches, and
/// integer tables, are kept.
struct Recipe {
  struct Rule {
    std::string pattern;
    std::optional<WeightFormat> format; ///< nothing: keep
  };
  std::vector<Rule> rules;
  std::optional<uint32_t> fileType;

  /// What `tensor` becomes; its own format where it is kept.
  WeightFormat formatOf(const GgufTensor &tensor) const;
};

/// Errors name `where` and the line.
Result<Recipe> parseRecipe(std::string_view toml, std::string_view where);

} // namespace ds4::quant

#endif // DS4_QUANT_RECIPE_H
