// Profile.cpp - one table of keys serves the TOML reader, the command line, the
// help text and the manifest.
#include "models/Profile.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <fmt/format.h>
#include <llvm/ADT/StringRef.h>

#include <charconv>

namespace ds4 {

static constexpr ProfileKey kKeys[] = {
    {"target", "host", "GPU or CPU to specialise for"},
    {"context", "128 to 1048576", "most positions of a sequence"},
    {"experts", "0 to 64", "routed experts a token (0: as the model)"},
    {"prefill_chunk", "1 to 8192", "tokens of a prefill step"},
    {"verify_width", "1 to 9", "most tokens of a verify step"},
    {"simulate", "true|false", "FP8/FP4 round trips of the trained model"},
    {"kv", "fp8|f16|f32", "storage of cached rows"},
    {"math", "portable|fast", "portable: the same bits on every target"},
    {"books", "float|int8", "levels of types 105 and 106; float is exact"},
    {"h32", "refuse|sylvester", "matrix of rotated experts of type 105"},
    {"logits", "last|all", "which logits a prefill step computes"},
    {"trace_points", "true|false", "name activations for ds4run --check"},
    {"imatrix", "true|false", "name inputs for ds4run --collect-imatrix"},
    {"disable_pass", "NAME,…|none", "optional passes to leave out"},
};

std::span<const ProfileKey> profileKeys() { return kKeys; }

static Error badValue(std::string_view key, std::string_view value,
                      std::string_view where) {
  for (const ProfileKey &known : kKeys)
    if (known.name == key)
      return invalidInput(fmt::format("{}: {} = {} is not one of {}", where,
                                      key, value, known.values));
  return invalidInput(fmt::format("{}: {} = {}", where, key, value));
}

static std::string_view nearestKey(std::string_view key) {
  std::string_view best;
  unsigned bestDistance = ~0u;
  for (const ProfileKey &known : kKeys) {
    unsigned distance = llvm::StringRef(key.data(), key.size())
                            .edit_distance(llvm::StringRef(known.name.data(),
                                                           known.name.size()));
    if (distance < bestDistance) {
      bestDistance = distance;
      best = known.name;
    }
  }
  return best;
}

static bool parseInt(std::string_view text, int64_t low, int64_t high,
                     int64_t &result) {
  auto [end, code] =
      std::from_chars(text.data(), text.data() + text.size(), result);
  return code == std::errc() && end == text.data() + text.size() &&
         result >= low && result <= high;
}

static bool parseBool(std::string_view text, bool &result) {
  result = text == "true" || text == "on";
  return result || text == "false" || text == "off";
}

static bool parseChoice(std::string_view text,
                        std::initializer_list<std::string_view> choices,
                        std::string &result) {
  result = text;
  return std::find(choices.begin(), choices.end(), text) != choices.end();
}

Status Profile::set(std::string_view key, std::string_view value,
                    std::string_view where) {
  bool good = true;
  if (key == "target")
    target = value; // Checked against the target table by ds4c.
  else if (key == "context")
    good = parseInt(value, 128, 1048576, context);
  else if (key == "experts")
    good = parseInt(value, 0, 64, experts);
  else if (key == "prefill_chunk")
    good = parseInt(value, 1, 8192, prefillChunk);
  else if (key == "verify_width")
    good = parseInt(value, 1, 9, verifyWidth);
  else if (key == "simulate")
    good = parseBool(value, simulate);
  else if (key == "kv")
    good = parseChoice(value, {"fp8", "f16", "f32"}, kv);
  else if (key == "math")
    good = parseChoice(value, {"portable", "fast"}, math);
  else if (key == "books")
    good = parseChoice(value, {"float", "int8"}, books);
  else if (key == "h32")
    good = parseChoice(value, {"refuse", "sylvester"}, h32);
  else if (key == "logits")
    good = parseChoice(value, {"last", "all"}, logits);
  else if (key == "trace_points")
    good = parseBool(value, tracePoints);
  else if (key == "imatrix")
    good = parseBool(value, imatrix);
  else if (key == "disable_pass")
    disablePass = value; // Checked against the pipeline by ds4c.
  else
    return invalidInput(fmt::format("{}: unknown key '{}'; did you mean '{}'?",
                                    where, key, nearestKey(key)));
  if (!good)
    return badValue(key, value, where);
  return Status::ok();
}

std::map<std::string, std::string> Profile::text() const {
  auto flag = [](bool value) { return value ? "true" : "false"; };
  return {{"target", target},
          {"context", std::to_string(context)},
          {"experts", std::to_string(experts)},
          {"prefill_chunk", std::to_string(prefillChunk)},
          {"verify_width", std::to_string(verifyWidth)},
          {"simulate", flag(simulate)},
          {"kv", kv},
          {"math", math},
          {"books", books},
          {"h32", h32},
          {"logits", logits},
          {"trace_points", flag(tracePoints)},
          {"imatrix", flag(imatrix)},
          {"disable_pass", disablePass}};
}

Status Profile::check() const {
  if (kv == "fp8" && !simulate)
    return invalidInput("kv = fp8 rounds cached rows as the model was trained "
                        "and needs simulate = true; use kv = f16 without it");
  if (prefillChunk > context)
    return invalidInput(fmt::format("prefill_chunk = {} exceeds context = {}",
                                    prefillChunk, context));
  return Status::ok();
}

Result<Profile> parseProfile(std::string_view toml, std::string_view where) {
  toml::parse_result parsed = toml::parse(toml, where);
  if (!parsed)
    return invalidInput(fmt::format("{}:{}: {}", where,
                                    parsed.error().source().begin.line,
                                    parsed.error().description()));
  Profile profile;
  for (auto &&[key, node] : parsed.table()) {
    std::string value;
    if (auto text = node.value_exact<std::string>())
      value = *text;
    else if (auto integer = node.value_exact<int64_t>())
      value = std::to_string(*integer);
    else if (auto flag = node.value_exact<bool>())
      value = *flag ? "true" : "false";
    else
      return invalidInput(
          fmt::format("{}:{}: {} is neither text, integer nor boolean", where,
                      node.source().begin.line, std::string_view(key.str())));
    DS4_TRY(profile.set(key.str(), value,
                        fmt::format("{}:{}", where, node.source().begin.line)));
  }
  return profile;
}

} // namespace ds4
