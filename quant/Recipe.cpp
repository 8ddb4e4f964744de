// Recipe.cpp - the TOML reader and the matching of names.
#include "quant/Recipe.h"

#include "quant/Encoders.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <fmt/format.h>
#include <fnmatch.h>

namespace ds4::quant {

WeightFormat Recipe::formatOf(const GgufTensor &tensor) const {
  if (tensor.format() == WeightFormat::i32)
    return WeightFormat::i32;
  for (const Rule &rule : rules)
    if (::fnmatch(rule.pattern.c_str(), tensor.name.c_str(), 0) == 0)
      return rule.format.value_or(tensor.format());
  return tensor.format();
}

static Error at(std::string_view where, const toml::node &node,
                std::string_view what) {
  return invalidInput(
      fmt::format("{}:{}: {}", where, node.source().begin.line, what));
}

static Result<Recipe::Rule> parseRule(const toml::node &node,
                                      std::string_view where) {
  const toml::array *pair = node.as_array();
  const auto pattern = pair && pair->size() == 2
                           ? (*pair)[0].value_exact<std::string>()
                           : std::nullopt;
  if (!pattern)
    return at(where, node, "a rule is [\"pattern\", \"type\"]");
  Recipe::Rule rule{*pattern, std::nullopt};
  const toml::node &type = (*pair)[1];
  const auto name = type.value_exact<std::string>();
  if (name && *name == "keep")
    return rule;
  if (name)
    rule.format = weightFormatFromName(*name);
  else if (const auto id = type.value_exact<int64_t>(); id && *id >= 0)
    rule.format = weightFormatFromId(static_cast<uint32_t>(*id));
  // Formats with books need more than a row; the quantiser decides on them.
  if (!rule.format ||
      (!canEncode(*rule.format) && !weightFormatInfo(*rule.format).bookLevels))
    return at(where, type,
              fmt::format("the type of \"{}\" is none that can be written",
                          *pattern));
  return rule;
}

Result<Recipe> parseRecipe(std::string_view text, std::string_view where) {
  const toml::parse_result parsed = toml::parse(text, where);
  if (!parsed)
    return invalidInput(fmt::format("{}:{}: {}", where,
                                    parsed.error().source().begin.line,
                                    parsed.error().description()));
  Recipe recipe;
  for (auto &&[key, node] : parsed.table()) {
    if (key == "types" && node.is_array()) {
      for (const toml::node &entry : *node.as_array()) {
        DS4_ASSIGN(Recipe::Rule rule, parseRule(entry, where));
        recipe.rules.push_back(std::move(rule));
      }
      continue;
    }
    const auto number = node.value_exact<int64_t>();
    if (key != "file_type" || !number || *number < 0)
      return at(where, node,
                fmt::format("{} is none of: types (an array), file_type (a "
                            "number)",
                            std::string_view(key.str())));
    recipe.fileType = static_cast<uint32_t>(*number);
  }
  if (recipe.rules.empty())
    return invalidInput(fmt::format("{}: a recipe needs types", where));
  return recipe;
}

} // namespace ds4::quant
