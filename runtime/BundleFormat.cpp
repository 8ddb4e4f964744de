// BundleFormat.cpp - the JSON forms of plan and manifest.
//
// Each struct lists its fields once, in describe(); JsonWriter and JsonReader
// walk that list, so that what is written is what is read. A reader keeps the
// first error with its place ("functions[1].launches[7].grid").
#include "runtime/BundleFormat.h"

#include "runtime/ArgText.h"
#include "runtime/PlanCheck.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <concepts>
#include <limits>

namespace ds4 {

using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Fields of each struct, in the order in which they are written
//===----------------------------------------------------------------------===//

template <typename Archive> static void describe(Archive &json, Launch &it) {
  json.field("kernel", it.kernel);
  json.field("label", it.label);
  json.field("layer", it.layer);
  json.field("grid", it.grid);
  json.field("block", it.block);
  json.field("ratio", it.ratio);
  json.field("args", it.args);
  json.field("weight_bytes_per_token", it.weightBytesPerToken);
  json.field("read_bytes", it.readBytes);
  json.field("written_bytes", it.writtenBytes);
  json.field("columns", it.columns);
  json.field("shared_bytes", it.sharedBytes);
  json.field("selection", it.selection);
}

template <typename Archive>
static void describe(Archive &json, TracePoint &it) {
  json.field("name", it.name);
  json.field("after_launch", it.afterLaunch);
  json.field("source", it.source);
  json.field("row_elements", it.rowElements);
  json.field("ratio", it.ratio);
}

template <typename Archive>
static void describe(Archive &json, Observation &it) {
  json.field("weight", it.weight);
  json.field("after_launch", it.afterLaunch);
  json.field("source", it.source);
  json.field("row_elements", it.rowElements);
  json.field("width", it.width);
  json.field("chosen", it.chosen);
  json.field("used", it.used);
  json.field("experts", it.experts);
  json.field("ratio", it.ratio);
}

template <typename Archive> static void describe(Archive &json, Function &it) {
  json.field("name", it.name);
  json.field("capacity", it.capacity);
  json.field("outputs", it.outputs);
  json.field("arena_bytes", it.arenaBytes);
  json.field("tickets", it.tickets);
  json.field("logits", it.logits);
  json.field("argmax", it.argmax);
  json.field("launches", it.launches);
  json.field("traces", it.traces);
  json.rareList("observations", it.observations);
}

template <typename Archive>
static void describe(Archive &json, WeightDesc &it) {
  json.field("name", it.name);
  json.field("format", it.format);
  json.field("shape", it.shape);
  json.field("bytes", it.bytes);
  json.field("value_limit", it.valueLimit);
  json.field("slices_per_token", it.slicesPerToken);
  json.field("layout", it.layout);
}

template <typename Archive> static void describe(Archive &json, BooksDesc &it) {
  json.field("weight", it.weight);
  json.field("format", it.format);
  json.field("experts", it.experts);
  json.field("int8", it.int8);
}

template <typename Archive>
static void describe(Archive &json, RotationsDesc &it) {
  json.field("weight", it.weight);
  json.field("experts", it.experts);
}

template <typename Archive> static void describe(Archive &json, StateDesc &it) {
  json.field("name", it.name);
  json.field("rows", it.rows);
  json.field("row_bytes", it.rowBytes);
  json.field("storage", it.storage);
  json.field("width", it.width);
  json.field("ratio", it.ratio);
}

template <typename Archive> static void describe(Archive &json, RopeTable &it) {
  json.field("name", it.name);
  json.field("positions", it.positions);
  json.field("dims", it.dims);
  json.field("base", it.base);
  json.field("factor", it.factor);
  json.field("original", it.original);
  json.field("beta_fast", it.betaFast);
  json.field("beta_slow", it.betaSlow);
}

template <typename Archive> static void describe(Archive &json, Plan &it) {
  json.field("functions", it.functions);
  json.field("weights", it.weights);
  json.field("books", it.books);
  json.rareList("rotations", it.rotations);
  json.field("states", it.states);
  json.field("tables", it.tables);
}

template <typename Archive> static void describe(Archive &json, UnitDesc &it) {
  json.field("name", it.name);
  json.field("file", it.file);
  json.field("hash", it.hash);
}

template <typename Archive>
static void describe(Archive &json, ObjectDesc &it) {
  json.field("target", it.target);
  json.field("kernel", it.kernel);
  json.field("file", it.file);
  json.field("key", it.key);
  json.field("hash", it.hash);
  json.field("cpu", it.cpu);
}

template <typename Archive> static void describe(Archive &json, Manifest &it) {
  json.field("version", it.version);
  json.field("tool", it.tool);
  json.field("model_name", it.modelName);
  json.field("fingerprint", it.fingerprint);
  json.field("profile", it.profile);
  json.field("layers", it.layers);
  json.field("vocab", it.vocab);
  json.field("context", it.context);
  json.field("most_rollback", it.mostRollback);
  json.field("plan_hash", it.planHash);
  json.field("units", it.units);
  json.field("objects", it.objects);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {

class JsonWriter {
public:
  Json object = Json::object();

  template <typename T> void field(const char *name, T &value) {
    object[name] = encode(std::as_const(value));
  }
  /// A list that most plans do not have.
  template <typename T> void rareList(const char *name, std::vector<T> &value) {
    if (!value.empty())
      field(name, value);
  }

private:
  static Json encode(const std::string &value) { return value; }
  static Json encode(const double &value) { return value; }
  template <std::integral T> static Json encode(const T &value) {
    return value;
  }
  static Json encode(const Arg &value) { return argToText(value); }
  static Json encode(const WeightFormat &value) {
    return std::string(weightFormatInfo(value).name);
  }
  static Json encode(const WeightLayout &value) {
    return std::string(weightLayoutName(value));
  }
  static Json encode(const std::map<std::string, std::string> &value) {
    Json result = Json::object();
    for (const auto &[key, text] : value)
      result[key] = text;
    return result;
  }
  static Json encode(const std::array<uint32_t, 2> &value) {
    return Json::array({value[0], value[1]});
  }
  template <typename T> static Json encode(const std::vector<T> &value) {
    Json result = Json::array();
    for (const T &element : value)
      result.push_back(encode(element));
    return result;
  }
  template <typename T> static Json encode(const T &value) {
    JsonWriter writer;
    T copy = value; // describe() serves the reader too and wants a mutable one
    describe(writer, copy);
    return std::move(writer.object);
  }
};

} // namespace

/// Two-space indent, except that an array of plain values is one line: a
/// launch's arguments read better so, and plans are a third as long.
static void print(const Json &json, int indent, std::string &out) {
  auto isPlain = [](const Json &value) { return !value.is_structured(); };
  auto text = [](const Json &value) {
    return value.dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  if (isPlain(json) || json.empty()) {
    out += text(json);
    return;
  }
  const bool isArray = json.is_array();
  const bool isLine = isArray && std::ranges::all_of(json, isPlain);
  const std::string pad(indent + 2, ' ');
  out += isArray ? '[' : '{';
  bool isFirst = true;
  for (auto it = json.begin(); it != json.end(); ++it) {
    if (!isFirst)
      out += isLine ? ", " : ",";
    isFirst = false;
    if (!isLine)
      out.append("\n").append(pad);
    if (!isArray)
      out.append(text(Json(it.key()))).append(": ");
    print(*it, indent + 2, out);
  }
  if (!isLine)
    out.append("\n").append(indent, ' ');
  out += isArray ? ']' : '}';
}

template <typename T> static std::string toJson(T value) {
  JsonWriter writer;
  describe(writer, value);
  std::string text;
  print(writer.object, 0, text);
  return text + "\n";
}

std::string planToJson(const Plan &plan) { return toJson(plan); }
std::string manifestToJson(const Manifest &manifest) {
  return toJson(manifest);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {

class JsonReader {
public:
  JsonReader(const Json &object, std::string place, std::string &error)
      : object(object), place(std::move(place)), error(error) {
    if (!object.is_object())
      fail(this->place, "an object");
  }

  template <typename T> void field(const char *name, T &value) {
    if (!error.empty())
      return;
    std::string at = place.empty() ? name : place + "." + name;
    auto it = object.find(name);
    if (it == object.end())
      error = fmt::format("{} is missing", at);
    else
      decode(*it, at, value);
  }
  template <typename T> void rareList(const char *name, std::vector<T> &value) {
    if (error.empty() && object.contains(name))
      field(name, value);
  }

private:
  void fail(const std::string &at, std::string_view expected) {
    error = fmt::format("{} is not {}", at.empty() ? "the text" : at, expected);
  }

  void decode(const Json &json, const std::string &at, std::string &value) {
    if (!json.is_string())
      return fail(at, "a string");
    value = json.get<std::string>();
  }
  void decode(const Json &json, const std::string &at, bool &value) {
    if (!json.is_boolean())
      return fail(at, "true or false");
    value = json.get<bool>();
  }
  void decode(const Json &json, const std::string &at, double &value) {
    if (!json.is_number())
      return fail(at, "a number");
    value = json.get<double>();
  }
  template <std::integral T>
  void decode(const Json &json, const std::string &at, T &value) {
    bool fits =
        json.is_number_unsigned()
            ? std::in_range<T>(json.get<uint64_t>())
            : json.is_number_integer() && std::in_range<T>(json.get<int64_t>());
    if (!fits)
      return fail(at, fmt::format("an integer from {} to {}",
                                  std::numeric_limits<T>::min(),
                                  std::numeric_limits<T>::max()));
    value = json.get<T>();
  }
  void decode(const Json &json, const std::string &at, Arg &value) {
    std::optional<Arg> arg;
    if (json.is_string())
      arg = argFromText(json.get_ref<const std::string &>());
    if (!arg)
      return fail(at, "an argument such as \"arena:256\", \"weight:NAME\" or "
                      "\"step\"");
    value = std::move(*arg);
  }
  void decode(const Json &json, const std::string &at, WeightFormat &value) {
    std::optional<WeightFormat> format;
    if (json.is_string())
      format = weightFormatFromName(json.get_ref<const std::string &>());
    if (!format)
      return fail(at, "a weight format that this version knows");
    value = *format;
  }
  void decode(const Json &json, const std::string &at, WeightLayout &value) {
    std::optional<WeightLayout> layout;
    if (json.is_string())
      layout = weightLayoutFromName(json.get_ref<const std::string &>());
    if (!layout)
      return fail(at, "a weight layout that this version knows");
    value = *layout;
  }
  void decode(const Json &json, const std::string &at,
              std::map<std::string, std::string> &value) {
    if (!json.is_object())
      return fail(at, "an object");
    for (auto it = json.begin(); it != json.end(); ++it)
      decode(*it, at + "." + it.key(), value[it.key()]);
  }
  void decode(const Json &json, const std::string &at,
              std::array<uint32_t, 2> &value) {
    if (!json.is_array() || json.size() != value.size())
      return fail(at, "an array of two integers");
    for (size_t i = 0; i < value.size() && error.empty(); ++i)
      decode(json[i], fmt::format("{}[{}]", at, i), value[i]);
  }
  template <typename T>
  void decode(const Json &json, const std::string &at, std::vector<T> &value) {
    if (!json.is_array())
      return fail(at, "an array");
    value.clear();
    for (size_t i = 0; i < json.size() && error.empty(); ++i)
      decode(json[i], fmt::format("{}[{}]", at, i), value.emplace_back());
  }
  template <typename T>
  void decode(const Json &json, const std::string &at, T &value) {
    JsonReader reader(json, at, error);
    describe(reader, value);
  }

  const Json &object;
  std::string place;
  std::string &error;
};

} // namespace

static Result<Json> parseJson(std::string_view text, std::string_view where) {
  try {
    return Json::parse(text);
  } catch (const Json::exception &exception) {
    return invalidInput(
        fmt::format("{} is not JSON: {}", where, exception.what()));
  }
}

template <typename T>
static Result<T> fromJson(const Json &json, std::string_view where) {
  T value;
  std::string error;
  JsonReader reader(json, "", error);
  describe(reader, value);
  if (!error.empty())
    return invalidInput(fmt::format("{}: {}", where, error));
  return value;
}

Result<Plan> planFromJson(std::string_view text, std::string_view where) {
  DS4_ASSIGN(Json json, parseJson(text, where));
  DS4_ASSIGN(Plan plan, fromJson<Plan>(json, where));
  DS4_TRY(checkPlan(plan, where));
  return plan;
}

Result<Manifest> manifestFromJson(std::string_view text,
                                  std::string_view where) {
  DS4_ASSIGN(Json json, parseJson(text, where));
  // The version first: another version may have other fields.
  auto version = json.is_object() ? json.find("version") : json.end();
  if (json.is_object() && version != json.end() && *version != kBundleVersion)
    return invalidInput(
        fmt::format("{} has bundle version {}, this program reads version {}: "
                    "rebuild the bundle with its ds4c",
                    where, version->dump(), kBundleVersion));
  return fromJson<Manifest>(json, where);
}

} // namespace ds4
