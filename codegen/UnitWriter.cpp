// UnitWriter.cpp - the text of a launch's unit.
#include "codegen/LaunchSpec.h"

#include "codegen/DeviceTexts.h"

#include "llvm/ADT/DenseMap.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>

using namespace mlir;

namespace ds4::codegen {

using namespace ir;

namespace {

class UnitWriter {
public:
  UnitWriter(const LaunchSpec &spec, std::string_view symbol)
      : spec(spec), symbol(symbol) {}
  std::string write();

private:
  void line(std::string_view text) {
    out += fmt::format("{:{}}{}\n", "", indent, text);
  }
  void writeBody(const KernelSpec &body);
  void writeKernel();
  void writePart(const LaunchPart &part);
  void open(std::string_view text) {
    line(text);
    indent += 2;
  }
  void close(std::string_view text = "}") {
    indent -= 2;
    line(text);
  }
  void writeHead(const LaunchHead &head, std::string block);
  void endUnlessLast(const std::string &ticket, uint32_t blocks,
                     uint32_t helpers = 1);
  void run(const KernelSpec &body, std::string first, int64_t blocks);
  std::string call(const KernelSpec &body, std::string_view block,
                   std::string_view row);

  const LaunchSpec &spec;
  std::string_view symbol;
  std::string out;
  unsigned indent = 0;
  /// Text of a body's namespace, and its number: equal bodies share one.
  std::map<std::string, unsigned> bodies;
  uint32_t tickets = 0; ///< that were taken so far, of a row
  bool shared = false;  ///< the block does rows of `last` (ops/launch.h)
};

} // namespace

/// Constants, decoder and device file of a body, or its printed text.
static std::string bodyText(const KernelSpec &body) {
  std::string text = fmt::format("constexpr u32 kRatio = {};\n", body.ratio);
  for (const KernelSpec::Constant &constant : body.constants)
    text += fmt::format("constexpr {} {} = {};\n", constant.type, constant.name,
                        constant.value);
  if (body.format)
    text += fmt::format("#include \"weights/{}.h\"\n",
                        weightFormatInfo(*body.format).name);
  if (body.layout)
    text += fmt::format("#include \"layouts/{}.h\"\n",
                        weightLayoutName(*body.layout));
  if (!body.text.empty())
    return text + "#include \"elements.h\"\n" + body.text;
  return text + fmt::format("#include \"{}.hip\"\n", body.kernel);
}

static std::string titleOf(const KernelSpec &body) {
  std::string title = body.kernel;
  if (body.format)
    title += fmt::format(", {}", weightFormatInfo(*body.format).name);
  return title;
}

void UnitWriter::writeBody(const KernelSpec &body) {
  auto [it, isNew] = bodies.try_emplace(bodyText(body), bodies.size());
  if (!isNew)
    return;
  out += fmt::format("\nnamespace body{0} {{ // {1}\n{2}}} // namespace "
                     "body{0}\n",
                     it->second, titleOf(body), it->first);
}

/// `bodyN::run(block, row, arguments);`.
std::string UnitWriter::call(const KernelSpec &body, std::string_view block,
                             std::string_view row) {
  std::vector<std::string> args{std::string(block), std::string(row)};
  for (Value value : body.args) {
    if (!value) {
      args.push_back("nullptr");
      continue;
    }
    const auto it =
        std::find(spec.args.begin(), spec.args.end(), storageOf(value));
    args.push_back(
        fmt::format("AnyPointer{{a{}}}", std::distance(spec.args.begin(), it)));
  }
  if (body.scratchBytes)
    args.push_back("AnyPointer{scratch}");
  if (body.reportsNan)
    args.push_back("status");
  args.push_back("step");
  return fmt::format("body{}::run({});", bodies.at(bodyText(body)),
                     fmt::join(args, ", "));
}

/// Calls of a body on `blocks` of its blocks from `first` on, for every row of
/// the grid's row. Bodies may use the same LDS: a barrier after each but a lone
/// one.
void UnitWriter::run(const KernelSpec &body, std::string first,
                     int64_t blocks) {
  const bool rows = spec.columns > 1 && body.columns == 1;
  if (rows)
    open(fmt::format("for (u32 row = group * {0}{1}; row < group * {0} + {0}; "
                     "{2}) {{",
                     spec.columns, shared ? " + last.first" : "",
                     shared ? "row += last.step" : "++row"));
  if (blocks > 1) {
    open(fmt::format("for (u32 i = 0; i < {}; ++i) {{", blocks));
    first = first == "0" ? "i" : fmt::format("({}) * {} + i", first, blocks);
  }
  line(call(body, first, body.columns > 1 ? "group" : "row"));
  if (rows || blocks > 1)
    line("barrier();");
  if (blocks > 1)
    close();
  if (rows)
    close();
}

/// Ends the block unless it is the last of `blocks` that take the ticket, or
/// one of the last `helpers`.
void UnitWriter::endUnlessLast(const std::string &ticket, uint32_t blocks,
                               uint32_t helpers) {
  const std::string place = fmt::format("tickets + {} + {}", ticket,
                                        spec.columns > 1 ? "group" : "row");
  if (helpers > 1) {
    line(fmt::format("const LastRows last = last_blocks({}, {}, {});", place,
                     blocks, helpers));
    open("if (last.step == 0)");
  } else {
    open(fmt::format("if (!last_block({}, {}))", place, blocks));
  }
  line("return;");
  indent -= 2;
  // The other blocks leave, and the next launch has room for what it does
  // before it waits.
  if (spec.dependent)
    line("let_next_begin();");
}

void UnitWriter::writeHead(const LaunchHead &head, std::string block) {
  const KernelSpec &first = head.body.spread ? *head.body.spread : head.body;
  if (spec.dependent && !first.waits)
    line("wait_for_previous();");
  if (head.body.spread) {
    const uint32_t group = head.blocks() / head.body.gridX;
    run(first, block, 1);
    block = fmt::format("({}) / {}", block, group);
    endUnlessLast(fmt::format("({} + {}) * {}", tickets, block, spec.gridY),
                  group);
    tickets += head.tickets();
  }
  run(head.body, block, 1);
  // It has no rows in some steps.
  if (spec.dependent && first.waits)
    line("wait_for_previous();");
  const bool tilesOnly = head.body.asides && !head.followers.empty();
  if (tilesOnly)
    open(fmt::format("if ({} < {}) {{", block,
                     head.body.gridX - head.body.asides));
  for (const KernelSpec &follower : head.followers) {
    line("barrier();");
    run(follower, block, head.body.tile / follower.tile);
  }
  if (tilesOnly)
    close();
  if (head.grouped.empty())
    return;
  block = fmt::format("({}) / {}", block, head.group);
  endUnlessLast(fmt::format("({} + {}) * {}", tickets, block, spec.gridY),
                head.group);
  tickets += head.arrivals();
  for (size_t i = 0; i < head.grouped.size(); ++i) {
    const KernelSpec &body = head.grouped[i];
    if (i > 0)
      line("barrier();");
    run(body, block, head.group * head.body.tile / body.tile);
  }
}

void UnitWriter::writePart(const LaunchPart &part) {
  uint32_t first = 0;
  const bool several = part.heads.size() > 1;
  for (size_t i = 0; i < part.heads.size(); ++i) {
    const LaunchHead &head = part.heads[i];
    const std::string block =
        first ? fmt::format("block - {}", first) : std::string("block");
    first += head.blocks();
    if (several && i == 0)
      open(fmt::format("if (block < {}) {{", first));
    else if (several && i + 1 < part.heads.size()) {
      close(fmt::format("}} else if (block < {}) {{", first));
      indent += 2;
    } else if (several) {
      close("} else {");
      indent += 2;
    }
    writeHead(head, block);
  }
  if (several)
    close();
  if (part.tail.empty())
    return;
  if (part.arrivals() > 1) {
    const uint32_t helpers = part.helpers(spec.columns);
    endUnlessLast(std::to_string(tickets++ * spec.gridY), part.arrivals(),
                  helpers);
    shared = helpers > 1;
  } else {
    line("barrier();");
  }
  for (size_t i = 0; i < part.tail.size(); ++i) {
    run(part.tail[i], "0", part.tail[i].gridX);
    if (i + 1 < part.tail.size())
      line("barrier();");
  }
  shared = false;
}

void UnitWriter::writeKernel() {
  std::vector<std::string> params;
  for (size_t i = 0; i < spec.args.size(); ++i)
    params.push_back(fmt::format("void *a{}", i));
  if (spec.tickets)
    params.push_back("u32 *tickets");
  if (spec.scratchBytes)
    params.push_back("void *scratch");
  if (spec.selection)
    params.push_back("StepStatus *status");
  params.push_back("const Step *step");
  line("");
  line(spec.resident ? fmt::format("DS4_KERNEL(kThreads, {})", spec.resident)
                     : "DS4_KERNEL(kThreads)");
  line(fmt::format("void {}({}) {{", symbol, fmt::join(params, ", ")));
  indent += 2;
  line(fmt::format("{}u32 block = block_x();",
                   spec.parts.size() > 1 ? "" : "const "));
  line(fmt::format("const u32 {} = block_y();",
                   spec.columns > 1 ? "group" : "row"));
  // A small launch leaves room for the next one from the beginning. Otherwise
  // the next one's blocks would be where there happens to be room.
  constexpr uint32_t kSmall = 64;
  if (spec.dependent && spec.gridX * spec.gridY <= kSmall)
    line("let_next_begin();");
  for (size_t i = 0; i < spec.parts.size(); ++i) {
    const LaunchPart &part = spec.parts[i];
    if (i + 1 == spec.parts.size()) {
      writePart(part);
      break;
    }
    open(fmt::format("if (block < {}) {{", part.blocks()));
    writePart(part);
    line("return;");
    close();
    line(fmt::format("block -= {};", part.blocks()));
  }
  indent -= 2;
  line("}");
  line(fmt::format("DS4_ENTRY({})", symbol));
}

std::string UnitWriter::write() {
  const std::vector<const KernelSpec *> all = spec.bodies();
  out = fmt::format("// unit {}: {}\n#include \"common.h\"\n"
                    "constexpr u32 kThreads = {};\n",
                    symbol, spec.name, spec.threads);
  for (const KernelSpec *body : all)
    writeBody(*body);
  writeKernel();
  return std::move(out);
}

Unit emitUnit(const LaunchSpec &spec) {
  std::string content = UnitWriter(spec, spec.name).write();
  for (const EmbeddedText *file : includedTexts(content))
    content.append(file->path).append("\n").append(file->text);
  std::string symbol =
      fmt::format("{}_{}", spec.name, contentHash(content).substr(0, 8));
  return {symbol, UnitWriter(spec, symbol).write()};
}

} // namespace ds4::codegen
