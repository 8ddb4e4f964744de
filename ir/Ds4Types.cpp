// Ds4Types.cpp - parsing, printing and verification of the dialect's types and
// attributes.
#include "ir/Ds4Ops.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace ds4;
using namespace ds4::ir;

#define GET_ATTRDEF_CLASSES
#include "ir/Ds4Attrs.cpp.inc"
#define GET_TYPEDEF_CLASSES
#include "ir/Ds4Types.cpp.inc"

void Ds4Dialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "ir/Ds4Types.cpp.inc"
      >();
}

void Ds4Dialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "ir/Ds4Attrs.cpp.inc"
      >();
}

static void printDims(AsmPrinter &printer, ArrayRef<int64_t> shape) {
  llvm::interleave(shape, printer, "x");
}

static LogicalResult verifyDims(function_ref<InFlightDiagnostic()> emitError,
                                ArrayRef<int64_t> shape) {
  for (int64_t dim : shape)
    if (dim <= 0)
      return emitError() << "dimension " << dim << " is not positive";
  return success();
}

//===----------------------------------------------------------------------===//
// WeightType
//===----------------------------------------------------------------------===//

Type WeightType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  StringRef formatName;
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false))
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&formatName))
    return {};
  std::optional<WeightFormat> format = weightFormatFromName(
      std::string_view(formatName.data(), formatName.size()));
  if (!format) {
    parser.emitError(loc) << "unknown weight format '" << formatName << "'";
    return {};
  }
  WeightLayout layout = WeightLayout::file;
  if (succeeded(parser.parseOptionalComma())) {
    StringRef layoutName;
    loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&layoutName))
      return {};
    std::optional<WeightLayout> known = weightLayoutFromName(
        std::string_view(layoutName.data(), layoutName.size()));
    if (!known) {
      parser.emitError(loc)
          << "unknown weight layout '" << layoutName << "' (file, lanes)";
      return {};
    }
    layout = *known;
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<WeightType>(parser.getContext(), shape, *format,
                                       layout);
}

static StringRef refOf(std::string_view text) {
  return StringRef(text.data(), text.size());
}

void WeightType::print(AsmPrinter &printer) const {
  printer << "<";
  printDims(printer, getShape());
  printer << "x" << refOf(weightFormatInfo(getFormat()).name);
  if (getLayout() != WeightLayout::file)
    printer << ", " << refOf(weightLayoutName(getLayout()));
  printer << ">";
}

LogicalResult WeightType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 ArrayRef<int64_t> shape, WeightFormat format,
                                 WeightLayout layout) {
  if (shape.empty() || shape.size() > 4) // weight_c1
    return emitError() << "a weight has 1 to 4 dimensions, not "
                       << shape.size();
  if (failed(verifyDims(emitError, shape)))
    return failure();
  const WeightFormatInfo &info = weightFormatInfo(format);
  if (shape.back() % info.rowMultiple) // weight_c2
    return emitError() << "row length " << shape.back()
                       << " is not a multiple of " << info.rowMultiple
                       << ", which " << refOf(info.name) << " needs";
  if (layout == WeightLayout::lanes && // weight_c3
      !LaneRow::of(format, shape.back()))
    return emitError() << "a row of " << shape.back() << " elements of "
                       << refOf(info.name)
                       << " has no 8 segments of whole blocks, which layout "
                          "lanes needs";
  return success();
}

int64_t WeightType::getNumElements() const {
  int64_t elements = 1;
  for (int64_t dim : getShape())
    elements *= dim;
  return elements;
}

uint64_t WeightType::getBytes() const {
  return getNumElements() / getRowElements() *
         weightRowBytes(getFormat(), getRowElements());
}

uint64_t WeightType::getDeviceRowBytes() const {
  return deviceRowBytes(getFormat(), getLayout(), getRowElements());
}

uint64_t WeightType::getDeviceBytes() const {
  return getNumElements() / getRowElements() * getDeviceRowBytes();
}

bool WeightType::isQuantised() const {
  return weightFormatInfo(getFormat()).quantised;
}

unsigned WeightType::getBookLevels() const {
  return weightFormatInfo(getFormat()).bookLevels;
}

//===----------------------------------------------------------------------===//
// Q8Type
//===----------------------------------------------------------------------===//

Type Q8Type::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  if (parser.parseLess() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false,
                                /*withTrailingX=*/false) ||
      parser.parseGreater())
    return {};
  return parser.getChecked<Q8Type>(parser.getContext(), shape);
}

void Q8Type::print(AsmPrinter &printer) const {
  printer << "<";
  printDims(printer, getShape());
  printer << ">";
}

LogicalResult Q8Type::verify(function_ref<InFlightDiagnostic()> emitError,
                             ArrayRef<int64_t> shape) {
  if (shape.empty())
    return emitError() << "int8 activations need at least one dimension";
  if (failed(verifyDims(emitError, shape))) // q8_c1
    return failure();
  if (shape.back() % 32) // q8_c2
    return emitError() << "last dimension " << shape.back()
                       << " is not a multiple of 32";
  return success();
}

//===----------------------------------------------------------------------===//
// StateType
//===----------------------------------------------------------------------===//

Type StateType::parse(AsmParser &parser) {
  SmallVector<int64_t> shape;
  StringRef storageName;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseDimensionList(shape, /*allowDynamic=*/false))
    return {};
  if (shape.size() != 2) {
    parser.emitError(loc) << "a state has rows and width";
    return {};
  }
  loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&storageName))
    return {};
  std::optional<RowStorage> storage = symbolizeRowStorage(storageName);
  if (!storage) {
    parser.emitError(loc) << "unknown row storage '" << storageName
                          << "' (f32, f16, fp8, fp4)";
    return {};
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<StateType>(parser.getContext(), shape[0], shape[1],
                                      *storage);
}

void StateType::print(AsmPrinter &printer) const {
  printer << "<" << getRows() << "x" << getWidth() << "x"
          << stringifyRowStorage(getStorage()) << ">";
}

LogicalResult StateType::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t rows, int64_t width,
                                RowStorage storage) {
  if (failed(verifyDims(emitError, {rows, width}))) // state_c1
    return failure();
  if (storage == RowStorage::fp8 && // state_c2
      (width <= 64 || width % 64))
    return emitError() << "fp8 rows need 64 values and a multiple of 64 more, "
                          "not "
                       << width;
  if (storage == RowStorage::fp4 && width % 32) // state_c2
    return emitError() << "fp4 rows need a multiple of 32 values, not "
                       << width;
  return success();
}

uint64_t StateType::getRowBytes() const {
  uint64_t width = getWidth();
  switch (getStorage()) {
  case RowStorage::f32:
    return width * 4;
  case RowStorage::f16:
    return width * 2;
  case RowStorage::fp8:
    return llvm::alignTo(width - 64 + 128 + (width - 64) / 64, 16);
  case RowStorage::fp4:
    return llvm::alignTo(width / 2 + width / 32, 4);
  }
  llvm_unreachable("a row storage without a size");
}

//===----------------------------------------------------------------------===//
// RowsAttr
//===----------------------------------------------------------------------===//

Attribute RowsAttr::parse(AsmParser &parser, Type) {
  StringRef domain;
  int64_t ratio = 1;
  if (parser.parseLess())
    return {};
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&domain))
    return {};
  if (domain == "outputs") {
    ratio = 0;
  } else if (domain == "windows") {
    if (parser.parseInteger(ratio))
      return {};
    if (ratio < 2) {
      parser.emitError(loc) << "a window has at least 2 tokens, not " << ratio;
      return {};
    }
  } else if (domain != "tokens") {
    parser.emitError(loc) << "unknown row domain '" << domain
                          << "' (tokens, windows R, outputs)";
    return {};
  }
  if (parser.parseGreater())
    return {};
  return parser.getChecked<RowsAttr>(parser.getContext(), ratio);
}

void RowsAttr::print(AsmPrinter &printer) const {
  if (getRatio() == 0)
    printer << "<outputs>";
  else if (getRatio() == 1)
    printer << "<tokens>";
  else
    printer << "<windows " << getRatio() << ">";
}

LogicalResult RowsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               int64_t ratio) {
  if (ratio < 0)
    return emitError() << "row ratio " << ratio << " is negative";
  return success();
}
