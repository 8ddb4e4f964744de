// ds4-opt.cpp - runs passes on graphs: mlir-opt with the ds4 dialect and passes
// only.
#include "ir/Ds4Ops.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<ds4::ir::Ds4Dialect, mlir::func::FuncDialect>();
  ds4::registerDs4Passes();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "ds4-opt: run passes on ds4 graphs\n", registry));
}
