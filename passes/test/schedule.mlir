// RUN: ds4-opt %s --ds4-schedule --split-input-file | FileCheck %s
// RUN: ds4-opt %s --ds4-schedule=explain --split-input-file --verify-diagnostics -o /dev/null

// The two norms of x need nothing; both norms behind them need one of those.
// CHECK-LABEL: func.func @levels(
// CHECK:         ds4.launch "side_by_side"
// CHECK-COUNT-2: ds4.rms_norm
// CHECK:         ds4.launch "side_by_side"
// CHECK-COUNT-2: ds4.rms_norm
// CHECK-NOT:     ds4.launch
func.func @levels(%x: tensor<1x64xf32>) -> (tensor<1x64xf32>, tensor<1x64xf32>) {
  %a = ds4.rms_norm %x eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %b = ds4.rms_norm %a eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %c = ds4.rms_norm %x eps 2.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %d = ds4.rms_norm %c eps 2.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  return %b, %d : tensor<1x64xf32>, tensor<1x64xf32>
}

// -----
// Two selections could report a NaN in one place.
func.func @selections(%x: tensor<1x8xf32>, %b: !ds4.weight<8xf32>) -> (tensor<1x2xi32>, tensor<1x2xi32>) {
  // expected-remark @+1 {{not fused: two selections: a NaN of one could not be told from the other's}}
  %e, %w = ds4.route %x, %b scale 1.5 : (tensor<1x8xf32>, !ds4.weight<8xf32>) -> (tensor<1x2xi32>, tensor<1x2xf32>)
  %f, %v = ds4.route %x, %b scale 2.5 : (tensor<1x8xf32>, !ds4.weight<8xf32>) -> (tensor<1x2xi32>, tensor<1x2xf32>)
  return %e, %f : tensor<1x2xi32>, tensor<1x2xi32>
}
