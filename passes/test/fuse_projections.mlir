// RUN: ds4-opt %s --ds4-fuse-projections --split-input-file | FileCheck %s
// RUN: ds4-opt %s --ds4-fuse-projections=explain --split-input-file --verify-diagnostics -o /dev/null

// Both forms of one input; the norm behind one of them joins, the view between
// comes along.
// CHECK-LABEL: func.func @one_input(
// CHECK:         ds4.quantize
// CHECK:         %[[R:.+]]:2 = ds4.launch "projections"
// CHECK-NEXT:      %[[A:.+]] = ds4.linear
// CHECK-NEXT:      %[[B:.+]] = ds4.linear
// CHECK-NEXT:      %[[V:.+]] = ds4.reshape %[[A]]
// CHECK-NEXT:      %[[N:.+]] = ds4.rms_norm %[[V]]
// CHECK-NEXT:      ds4.yield %[[B]], %[[N]]
// CHECK:         return %[[R]]#1, %[[R]]#0
func.func @one_input(%x: tensor<1x64xf32>) -> (tensor<1x2x32xf32>, tensor<1x96xf32>) {
  %w = ds4.weight "w" : !ds4.weight<64x64xq8_0>
  %v = ds4.weight "v" : !ds4.weight<96x64xf16>
  %q = ds4.quantize %x : (tensor<1x64xf32>) -> !ds4.q8<1x64>
  %a = ds4.linear %q, %w : (!ds4.q8<1x64>, !ds4.weight<64x64xq8_0>) -> tensor<1x64xf32>
  %b = ds4.linear %x, %v : (tensor<1x64xf32>, !ds4.weight<96x64xf16>) -> tensor<1x96xf32>
  %r = ds4.reshape %a : (tensor<1x64xf32>) -> tensor<1x2x32xf32>
  %n = ds4.rms_norm %r eps 1.0e-6 : (tensor<1x2x32xf32>) -> tensor<1x2x32xf32>
  return %n, %b : tensor<1x2x32xf32>, tensor<1x96xf32>
}

// -----
// The activation of gate and up cannot wait for the expert between: %up needs
// what is no part of the launch.
// CHECK-LABEL: func.func @between(
// CHECK:         ds4.launch "projections"
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.yield
// CHECK:         ds4.argmax
// CHECK:         ds4.swiglu
func.func @between(%x: tensor<1x64xf32>, %t: !ds4.weight<128x8xi32>) -> tensor<1x8xf32> {
  %w = ds4.weight "w" : !ds4.weight<64x64xf16>
  %v = ds4.weight "v" : !ds4.weight<8x64xf16>
  %a = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<64x64xf16>) -> tensor<1x64xf32>
  %b = ds4.linear %x, %v : (tensor<1x64xf32>, !ds4.weight<8x64xf16>) -> tensor<1x8xf32>
  %i = ds4.argmax %a : (tensor<1x64xf32>) -> tensor<1xi32>
  %e, %f = ds4.hash_route %b, %i, %t scale 1.5 : (tensor<1x8xf32>, tensor<1xi32>, !ds4.weight<128x8xi32>) -> (tensor<1x8xi32>, tensor<1x8xf32>)
  // expected-remark @+1 {{not fused: swiglu needs hash_route, which needs the others and is not of the launch}}
  %s = ds4.swiglu %b, %f limit 3.0 : tensor<1x8xf32>
  return %s : tensor<1x8xf32>
}

// -----
// A row of 16384 values is too much for one block.
// CHECK-LABEL: func.func @long_row(
// CHECK:         ds4.linear
// CHECK-NOT:     ds4.launch
// CHECK:         ds4.rms_norm
func.func @long_row(%x: tensor<1x64xf32>) -> tensor<1x16384xf32> {
  %w = ds4.weight "w" : !ds4.weight<16384x64xf16>
  %a = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<16384x64xf16>) -> tensor<1x16384xf32>
  %n = ds4.rms_norm %a eps 1.0e-6 : (tensor<1x16384xf32>) -> tensor<1x16384xf32>
  return %n : tensor<1x16384xf32>
}
