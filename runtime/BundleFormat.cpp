// BundleFormat.cpp - the JSON forms of plan and manifest, and opening a bundle.
//
// Each struct lists its fields once, in describe(); JsonWriter and JsonReader
// walk that list, so that what is written is what is read. A reader keeps the
// first error with its place ("functions[1].launches[7].grid").
#include "runtime/BundleFormat.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdio>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

namespace ds4 {

using Json = nlohmann::ordered_json;

//===----------------------------------------------------------------------===//
// Arguments as text: "arena:4096", "weight:output.weight", "step"
//===----------------------------------------------------------------------===//

namespace {

/// What follows the kind in an argument's text.
enum class ArgPayload { nothing, name, offset };

struct ArgKindInfo {
  ArgKind kind;
  std::string_view text;
  ArgPayload payload;
};

constexpr ArgKindInfo kArgKinds[] = {
    {ArgKind::arena, "arena", ArgPayload::offset},
    {ArgKind::weight, "weight", ArgPayload::name},
    {ArgKind::books, "books", ArgPayload::name},
    {ArgKind::rotations, "rotations", ArgPayload::name},
    {ArgKind::state, "state", ArgPayload::name},
    {ArgKind::table, "table", ArgPayload::name},
    {ArgKind::tokens, "tokens", ArgPayload::nothing},
    {ArgKind::step, "step", ArgPayload::nothing},
    {ArgKind::status, "status", ArgPayload::offset},
    {ArgKind::tickets, "tickets", ArgPayload::offset},
    {ArgKind::null, "null", ArgPayload::nothing},
};

} // namespace

static std::string argToText(const Arg &arg) {
  const ArgKindInfo &info =
      *std::ranges::find(kArgKinds, arg.kind, &ArgKindInfo::kind);
  switch (info.payload) {
  case ArgPayload::nothing:
    return std::string(info.text);
  case ArgPayload::name:
    return fmt::format("{}:{}", info.text, arg.name);
  case ArgPayload::offset:
    return fmt::format("{}:{}", info.text, arg.offset);
  }
  return {};
}

static std::optional<Arg> argFromText(std::string_view text) {
  size_t colon = text.find(':');
  const auto *info =
      std::ranges::find(kArgKinds, text.substr(0, colon), &ArgKindInfo::text);
  if (info == std::end(kArgKinds))
    return std::nullopt;
  Arg arg{info->kind, {}, 0};
  if ((colon == std::string_view::npos) !=
      (info->payload == ArgPayload::nothing))
    return std::nullopt;
  if (colon == std::string_view::npos)
    return arg;
  std::string_view payload = text.substr(colon + 1);
  if (payload.empty())
    return std::nullopt;
  if (info->payload == ArgPayload::name) {
    arg.name = payload;
    return arg;
  }
  const char *end = payload.data() + payload.size();
  auto [stop, code] = std::from_chars(payload.data(), end, arg.offset);
  if (code != std::errc() || stop != end)
    return std::nullopt;
  return arg;
}

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
      out += "\n" + pad;
    if (!isArray)
      out += text(Json(it.key())) + ": ";
    print(*it, indent + 2, out);
  }
  if (!isLine)
    out += "\n" + std::string(indent, ' ');
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

//===----------------------------------------------------------------------===//
// What a plan must promise before anything is allocated for it
//===----------------------------------------------------------------------===//

template <typename T>
static std::set<std::string_view> namesOf(const std::vector<T> &items,
                                          std::string T::*name) {
  std::set<std::string_view> names;
  for (const T &item : items)
    names.insert(item.*name);
  return names;
}

namespace {

/// Names and sizes that arguments are checked against.
struct PlanNames {
  explicit PlanNames(const Plan &plan)
      : weights(namesOf(plan.weights, &WeightDesc::name)),
        books(namesOf(plan.books, &BooksDesc::weight)),
        rotations(namesOf(plan.rotations, &RotationsDesc::weight)),
        states(namesOf(plan.states, &StateDesc::name)),
        tables(namesOf(plan.tables, &RopeTable::name)) {}

  bool has(const Arg &arg, const Function &function) const {
    switch (arg.kind) {
    case ArgKind::arena:
      return arg.offset < function.arenaBytes;
    case ArgKind::weight:
      return weights.contains(arg.name);
    case ArgKind::books:
      return books.contains(arg.name);
    case ArgKind::rotations:
      return rotations.contains(arg.name);
    case ArgKind::state:
      return states.contains(arg.name);
    case ArgKind::table:
      return tables.contains(arg.name);
    case ArgKind::status:
      return arg.offset % sizeof(StepStatus) == 0 &&
             arg.offset / sizeof(StepStatus) < function.launches.size();
    case ArgKind::tickets:
      return arg.offset % sizeof(uint32_t) == 0 &&
             arg.offset / sizeof(uint32_t) < function.tickets;
    case ArgKind::tokens:
    case ArgKind::step:
    case ArgKind::null:
      return true;
    }
    return false;
  }

  std::set<std::string_view> weights, books, rotations, states, tables;
};

} // namespace

static Status checkFunction(const Function &function, const PlanNames &names,
                            std::string_view where) {
  auto refuse = [&](std::string_view place, std::string_view text) {
    return invalidInput(fmt::format("{}: function {}, {}: {}", where,
                                    function.name, place, text));
  };
  if (function.capacity == 0 || function.outputs == 0)
    return refuse("capacity", "a step holds no token");
  for (const Arg *arg : {&function.logits, &function.argmax})
    if (!names.has(*arg, function))
      return refuse("results", argToText(*arg) + " does not exist");
  for (size_t i = 0; i < function.launches.size(); ++i) {
    const Launch &launch = function.launches[i];
    const std::string place = fmt::format("launch {} ({})", i, launch.label);
    if (launch.block == 0 || launch.block > 1024 || launch.block % 32)
      return refuse(place, fmt::format("a block of {} threads; it must be a "
                                       "multiple of 32 up to 1024",
                                       launch.block));
    if (launch.grid[0] == 0 || launch.grid[1] == 0 || launch.columns == 0)
      return refuse(place, "an empty grid");
    if (launch.ratio < 0)
      return refuse(place, fmt::format("row ratio {}", launch.ratio));
    for (const Arg &arg : launch.args)
      if (!names.has(arg, function))
        return refuse(place, argToText(arg) + " does not exist");
  }
  for (const TracePoint &trace : function.traces)
    if (trace.afterLaunch >= function.launches.size() || trace.ratio < 0 ||
        !names.has(trace.source, function))
      return refuse("trace " + trace.name, "its launch or buffer does not "
                                           "exist");
  for (const Observation &it : function.observations) {
    const bool isExpert = it.chosen.kind != ArgKind::null;
    const bool fits =
        isExpert ? it.used > 0 && (it.rowElements == it.width ||
                                   it.rowElements / it.used == it.width)
                 : it.used == 0 && it.experts == 1;
    if (it.afterLaunch >= function.launches.size() || it.ratio < 0 ||
        !names.has(it.source, function) || !names.has(it.chosen, function) ||
        !names.weights.contains(it.weight))
      return refuse("observation of " + it.weight,
                    "its launch, buffer or weight does not exist");
    if (!fits || it.width == 0 || it.experts == 0 ||
        it.rowElements % it.width != 0)
      return refuse("observation of " + it.weight,
                    fmt::format("rows of {} values for vectors of {}",
                                it.rowElements, it.width));
  }
  return Status::ok();
}

uint64_t deviceBytes(const WeightDesc &desc) {
  if (desc.layout == WeightLayout::file)
    return desc.bytes;
  const LaneRow row = *LaneRow::of(desc.format, desc.shape.back());
  return desc.bytes / row.fileBytes * row.bytes;
}

static Status checkWeight(const WeightDesc &desc, std::string_view where) {
  if (desc.layout == WeightLayout::file)
    return Status::ok();
  const int64_t columns = desc.shape.empty() ? 0 : desc.shape.back();
  if (columns > 0 && LaneRow::of(desc.format, columns))
    return Status::ok();
  return invalidInput(
      fmt::format("{}: weight {}: rows of {} elements of {} have no layout {}",
                  where, desc.name, columns, weightFormatInfo(desc.format).name,
                  weightLayoutName(desc.layout)));
}

static Status checkState(const StateDesc &state, std::string_view where) {
  // So that sums of sizes cannot wrap.
  constexpr uint64_t kMostBytes = uint64_t(1) << 48;
  if (state.ratio < 1 || state.rows == 0 || state.rowBytes == 0 ||
      state.rows > kMostBytes / state.rowBytes)
    return invalidInput(fmt::format(
        "{}: state {} has {} rows of {} bytes, one for {} tokens", where,
        state.name, state.rows, state.rowBytes, state.ratio));
  return Status::ok();
}

Result<Plan> planFromJson(std::string_view text, std::string_view where) {
  DS4_ASSIGN(Json json, parseJson(text, where));
  DS4_ASSIGN(Plan plan, fromJson<Plan>(json, where));
  for (const WeightDesc &weight : plan.weights)
    DS4_TRY(checkWeight(weight, where));
  for (const StateDesc &state : plan.states)
    DS4_TRY(checkState(state, where));
  PlanNames names(plan);
  for (const Function &function : plan.functions)
    DS4_TRY(checkFunction(function, names, where));
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

const Function *Plan::find(std::string_view name) const {
  auto it = std::ranges::find(functions, name, &Function::name);
  return it == functions.end() ? nullptr : &*it;
}

//===----------------------------------------------------------------------===//
// Bundles on disk
//===----------------------------------------------------------------------===//

std::string contentHash(std::string_view bytes) {
  XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

static Result<std::string> readFile(const std::filesystem::path &bundle,
                                    std::string_view name) {
  std::filesystem::path path = bundle / name;
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  if (!file || (file.peek() != EOF && !(bytes << file.rdbuf())))
    return ioError(fmt::format("cannot read {}: the bundle is incomplete, "
                               "rebuild it with ds4c",
                               path.string()));
  return std::move(bytes).str();
}

static Status checkFile(const std::filesystem::path &bundle,
                        const std::string &name, std::string_view hash) {
  // Names come from the manifest; they must not lead out of the bundle.
  std::filesystem::path relative = std::filesystem::path(name);
  if (relative.is_absolute() ||
      std::ranges::find(relative, std::filesystem::path("..")) !=
          relative.end())
    return invalidInput(fmt::format("{}/manifest.json names {}, which is not "
                                    "inside the bundle",
                                    bundle.string(), name));
  DS4_ASSIGN(std::string bytes, readFile(bundle, name));
  if (contentHash(bytes) != hash)
    return invalidInput(fmt::format("{} was changed after ds4c wrote it: "
                                    "rebuild the bundle",
                                    (bundle / name).string()));
  return Status::ok();
}

Result<Bundle> openBundle(const std::filesystem::path &path) {
  std::error_code code;
  if (!std::filesystem::is_directory(path, code))
    return invalidInput(fmt::format("{} is not a bundle (a directory that ds4c "
                                    "wrote)",
                                    path.string()));
  Bundle bundle;
  bundle.path = path;
  DS4_ASSIGN(std::string manifest, readFile(path, "manifest.json"));
  DS4_ASSIGN(bundle.manifest,
             manifestFromJson(manifest, (path / "manifest.json").string()));
  DS4_TRY(checkFile(path, "plan.json", bundle.manifest.planHash));
  DS4_ASSIGN(std::string plan, readFile(path, "plan.json"));
  DS4_ASSIGN(bundle.plan, planFromJson(plan, (path / "plan.json").string()));
  for (const UnitDesc &unit : bundle.manifest.units)
    DS4_TRY(checkFile(path, unit.file, unit.hash));
  for (const ObjectDesc &object : bundle.manifest.objects)
    DS4_TRY(checkFile(path, object.file, object.hash));
  return bundle;
}

} // namespace ds4
