// ds4-tblgen.cpp - reads ir/QuantFormats.td and writes what follows from it:
//
//   -gen-table    runtime/WeightFormats.inc: enumerators and rows of the table
//   -gen-layouts  ops/WeightLayouts.inc: where codes are (ops/CodeLayout.h)
//   -gen-device   ops/weights/formats.h: constants of the device decoders
//   -gen-grids    ops/weights/grids.h: codebooks of the IQ types
//   -gen-doc      docs/reference/formats.md
//
// The results are committed, since ds4run builds without LLVM; ir/test/
// generated.test compares them.
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/TableGen/Error.h"
#include "llvm/TableGen/Main.h"
#include "llvm/TableGen/Record.h"

#include <algorithm>
#include <vector>

using namespace llvm;

namespace {

using Records = std::vector<const Record *>;

/// A format, with the checks that no other place makes.
class Format {
public:
  explicit Format(const Record *format) : record(format) {
    if (integer("bytes") <= 0 || integer("elements") <= 0 ||
        integer("rowMultiple") % integer("elements") != 0)
      PrintFatalError(record, "bad sizes");
    if (scaleEnd() > integer("bytes"))
      PrintFatalError(record, "scales end behind the block");
    if (quantised() && (split() <= 0 || split() >= integer("bytes")))
      PrintFatalError(record, "a part of the block is empty");
    int64_t bits = 0;
    for (const Record *plane : planes()) {
      bits += plane->getValueAsInt("codeBits");
      if (plane->getValueAsInt("offset") +
              plane->getValueAsInt("codeBits") * integer("elements") / 8 >
          integer("bytes"))
        PrintFatalError(record, "a plane ends behind the block");
    }
    const std::vector<int64_t> values = tableValues();
    if (!values.empty() && values.size() != size_t(1) << bits)
      PrintFatalError(record, "codes and table differ in size");
  }

  StringRef name() const { return record->getName(); }
  int64_t integer(StringRef field) const {
    return record->getValueAsInt(field);
  }
  bool minimums() const { return record->getValueAsBit("minimums"); }
  StringRef note() const { return record->getValueAsString("note"); }
  const Record &scales() const { return *record->getValueAsDef("scales"); }
  StringRef scaleKind() const { return scales().getValueAsString("kind"); }
  bool quantised() const { return scaleKind() != "none"; }
  Records planes() const {
    const auto list = record->getValueAsListOfDefs("planes");
    return {list.begin(), list.end()};
  }
  /// Its levels if they are of this class, or null.
  const Record *levels(StringRef kind) const {
    if (record->isValueUnset("levels"))
      return nullptr;
    const Record *found = record->getValueAsDef("levels");
    return found->isSubClassOf(kind) ? found : nullptr;
  }
  std::vector<int64_t> tableValues() const {
    const Record *table = levels("Table");
    return table ? table->getValueAsListOfInts("values")
                 : std::vector<int64_t>();
  }
  int64_t bookLevels() const {
    const Record *books = levels("Books");
    return books ? books->getValueAsInt("count") : 0;
  }
  /// Byte that cuts a block in two: codes, and scales with what is too short
  /// for wide loads. The codes keep whole units of 16 bytes, of 4 in small
  /// blocks (runtime/WeightLayout.h).
  int64_t split() const {
    const int64_t unit = integer("elements") > 32 ? 16 : 4;
    const int64_t begin = scales().getValueAsInt("offset");
    if (!quantised() || begin > 0)
      return begin / unit * unit;
    const int64_t codes = integer("bytes") - scaleEnd();
    return integer("bytes") - codes / unit * unit;
  }
  /// Value of the C++ enumerator.
  int64_t enumerator() const {
    return integer("id") + (integer("reading") << 16);
  }

private:
  int64_t scaleEnd() const {
    return scales().getValueAsInt("offset") +
           scales().getValueAsInt("count") * (scaleKind() == "f16" ? 2 : 1);
  }

  const Record *record;
};

/// All formats, ascending by enumerator.
std::vector<Format> formatsOf(RecordKeeper &records) {
  std::vector<Format> formats;
  for (const Record *record : records.getAllDerivedDefinitions("WeightFormat"))
    formats.emplace_back(record);
  llvm::sort(formats, [](const Format &a, const Format &b) {
    return a.enumerator() < b.enumerator();
  });
  for (size_t i = 1; i < formats.size(); ++i)
    if (formats[i - 1].enumerator() == formats[i].enumerator())
      PrintFatalError("two formats have the id and reading of " +
                      formats[i].name());
  return formats;
}

void printHead(raw_ostream &os, StringRef line) {
  os << "// " << line << "\n// Written by ds4-tblgen from ir/QuantFormats.td; "
     << "do not edit.\n// clang-format off\n";
}

std::string braced(ArrayRef<int64_t> values) {
  std::string text = "{";
  raw_string_ostream os(text);
  interleaveComma(values, os);
  return text + "}";
}

void genTable(ArrayRef<Format> formats, raw_ostream &os) {
  printHead(os, "WeightFormats.inc - the table of storage formats.");
  os << "#ifdef DS4_FORMAT_ENUMERATORS\n";
  for (const Format &format : formats)
    os << format.name() << " = " << format.enumerator() << ",\n";
  os << "#undef DS4_FORMAT_ENUMERATORS\n#endif\n"
     << "#ifdef DS4_FORMAT_ROWS\n";
  for (const Format &format : formats) {
    const Record &scales = format.scales();
    os << "{" << format.name() << ", " << format.integer("id") << ", \""
       << format.name() << "\", " << format.integer("elements") << ", "
       << format.integer("bytes") << ", " << format.integer("rowMultiple")
       << ", " << format.bookLevels() << ", "
       << (format.quantised() ? "true" : "false")
       << ", ScaleKind::" << format.scaleKind() << ", "
       << scales.getValueAsInt("offset") << ", "
       << scales.getValueAsInt("count") << ", " << format.split() << "},\n";
  }
  os << "#undef DS4_FORMAT_ROWS\n#endif\n";
}

void genLayouts(ArrayRef<Format> formats, raw_ostream &os) {
  printHead(os, "WeightLayouts.inc - rows of kLayouts in CodeLayout.cpp.");
  for (const Format &format : formats) {
    if (!format.quantised())
      continue;
    os << "{" << format.name() << ", {{";
    interleaveComma(format.planes(), os, [&](const Record *plane) {
      os << braced({plane->getValueAsInt("offset"),
                    plane->getValueAsInt("codeBits"),
                    plane->getValueAsInt("period")});
    });
    StringRef codes = "integers";
    int64_t zero = 0;
    if (const Record *integers = format.levels("Integers"))
      zero = integers->getValueAsInt("zero");
    else if (format.levels("Table"))
      codes = "table";
    else if (format.levels("SignMagnitude"))
      codes = "signMagnitude";
    else if (format.levels("Gridded"))
      codes = "grid";
    else
      codes = "books";
    os << "}}, Codes::" << codes << ", " << zero << ", "
       << braced(format.tableValues()) << ", " << format.integer("scalesPer32")
       << ", " << (format.minimums() ? "true" : "false") << "},\n";
  }
}

void genDevice(ArrayRef<Format> formats, raw_ostream &os) {
  printHead(os, "formats.h - sizes and levels of the storage formats.");
  os << "#ifndef DS4_OPS_WEIGHTS_FORMATS_H\n"
     << "#define DS4_OPS_WEIGHTS_FORMATS_H\n";
  for (const Format &format : formats) {
    if (format.name() == "i32")
      continue; // no weights
    os << "\nnamespace format_" << format.name() << " {\n"
       << "constexpr u32 kBlockElements = " << format.integer("elements")
       << ", kBlockBytes = " << format.integer("bytes") << ";\n";
    if (format.quantised())
      os << "constexpr u32 kScaleOffset = "
         << format.scales().getValueAsInt("offset")
         << ", kScales = " << format.integer("scalesPer32") << ";\n";
    const std::vector<int64_t> values = format.tableValues();
    if (!values.empty())
      os << "DS4_TABLE i8 kLevels[] = " << braced(values) << ";\n";
    os << "} // namespace format_" << format.name() << "\n";
  }
  os << "\n#endif // DS4_OPS_WEIGHTS_FORMATS_H\n";
}

void genGrids(RecordKeeper &records, raw_ostream &os) {
  printHead(os, "grids.h - codebooks of ggml's IQ types, a byte an element.");
  os << "#ifndef DS4_OPS_WEIGHTS_GRIDS_H\n#define DS4_OPS_WEIGHTS_GRIDS_H\n";
  for (const Record *grid : records.getAllDerivedDefinitions("Grid")) {
    const int64_t width = grid->getValueAsInt("width");
    const int64_t bits = grid->getValueAsInt("codeBits");
    const std::vector<int64_t> levels = grid->getValueAsListOfInts("levels");
    const std::vector<int64_t> entries = grid->getValueAsListOfInts("entries");
    os << "\nDS4_TABLE " << (width == 8 ? "u64 " : "u32 ") << grid->getName()
       << "[" << entries.size() << "] = {";
    for (const auto &[i, entry] : llvm::enumerate(entries)) {
      uint64_t bytes = 0;
      for (int64_t j = 0; j < width; ++j) {
        const size_t index = entry >> (bits * j) & ((1 << bits) - 1);
        if (index >= levels.size())
          PrintFatalError(grid, "an entry names a level that does not exist");
        bytes |= static_cast<uint64_t>(levels[index]) << (8 * j);
      }
      os << (i % (24 / width) == 0 ? "\n    " : " ") << format_hex(bytes, 0)
         << ",";
    }
    os << "};\n";
  }
  os << "\n#endif // DS4_OPS_WEIGHTS_GRIDS_H\n";
}

/// "4-bit nibbles", in words.
std::string planeText(const Record *plane) {
  const int64_t bits = plane->getValueAsInt("codeBits");
  const int64_t period = plane->getValueAsInt("period");
  std::string text;
  raw_string_ostream os(text);
  os << "byte " << plane->getValueAsInt("offset") << ": ";
  if (period == 0)
    os << "stream of " << bits << " bit" << (bits > 1 ? "s" : "");
  else if (bits == 8)
    os << "int8";
  else
    os << bits << " bit" << (bits > 1 ? "s" : "") << " of " << period;
  return text;
}

std::string levelsText(const Format &format) {
  std::string text;
  raw_string_ostream os(text);
  if (const Record *integers = format.levels("Integers")) {
    const int64_t zero = integers->getValueAsInt("zero");
    os << "code";
    if (zero)
      os << " - " << zero;
  } else if (const Record *table = format.levels("Table")) {
    interleave(table->getValueAsListOfInts("values"), os, " ");
  } else if (format.levels("SignMagnitude")) {
    os << "sign, magnitude";
  } else if (const Record *grid = format.levels("Gridded")) {
    os << "`" << grid->getValueAsDef("grid")->getName() << "`, signed";
  } else if (format.bookLevels()) {
    os << "2 books of " << format.bookLevels();
  }
  return text;
}

void genDoc(ArrayRef<Format> formats, raw_ostream &os) {
  os << "# Storage formats: the table\n\n"
     << "Written by ds4-tblgen from `ir/QuantFormats.td`, where the words are "
        "explained;\nwhat it means in sentences is in `docs/formats.md`. "
        "\"4 bits of 64\": elements come\nin periods of 64, the first of them "
        "in the lowest bits of the period's bytes. \"Cut\" is the byte "
        "between a block's parts\nin the layout `lanes`.\n\n"
     << "| id | name | elements | bytes | bits each | row multiple | codes | "
        "levels | scales | of 32 elements | cut | remarks |\n"
     << "|---:|---|---:|---:|---:|---:|---|---|---|---|---:|---|\n";
  for (const Format &format : formats) {
    os << "| " << format.integer("id") << " | `" << format.name() << "` | "
       << format.integer("elements") << " | " << format.integer("bytes")
       << " | "
       << llvm::format("%g", 8.0 * double(format.integer("bytes")) /
                                 double(format.integer("elements")))
       << " | " << format.integer("rowMultiple") << " | ";
    std::vector<std::string> parts;
    for (const Record *plane : format.planes())
      parts.push_back(planeText(plane));
    os << join(parts, "; ") << " | " << levelsText(format) << " | ";
    if (format.quantised()) {
      const Record &scales = format.scales();
      os << scales.getValueAsInt("count") << " " << format.scaleKind()
         << " at byte " << scales.getValueAsInt("offset") << " | "
         << format.integer("scalesPer32")
         << (format.minimums() ? " with minimum" : "") << " | "
         << format.split();
    } else {
      os << "| | ";
    }
    os << " | " << format.note() << " |\n";
  }
}

enum class Action { table, layouts, device, grids, doc };

cl::opt<Action>
    action(cl::desc("What to write:"),
           cl::values(clEnumValN(Action::table, "gen-table", "type table"),
                      clEnumValN(Action::layouts, "gen-layouts",
                                 "layouts for the oracle"),
                      clEnumValN(Action::device, "gen-device",
                                 "constants of the device decoders"),
                      clEnumValN(Action::grids, "gen-grids",
                                 "codebooks of the IQ types"),
                      clEnumValN(Action::doc, "gen-doc", "documentation")),
           cl::Required);

bool generate(raw_ostream &os, RecordKeeper &records) {
  const std::vector<Format> formats = formatsOf(records);
  switch (action) {
  case Action::table:
    genTable(formats, os);
    break;
  case Action::layouts:
    genLayouts(formats, os);
    break;
  case Action::device:
    genDevice(formats, os);
    break;
  case Action::grids:
    genGrids(records, os);
    break;
  case Action::doc:
    genDoc(formats, os);
    break;
  }
  return false;
}

} // namespace

int main(int argc, char **argv) {
  cl::ParseCommandLineOptions(argc, argv, "ds4c's formats of weights\n");
  return TableGenMain(argv[0], generate);
}
