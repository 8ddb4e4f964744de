// RUN: ds4-opt %s --ds4-layer-major --ds4-fuse-projections | FileCheck %s
// RUN: ds4-opt %s --ds4-layer-major --ds4-fuse-projections=explain --verify-diagnostics -o /dev/null

module attributes {ds4.profile = {target = "sm_90"}} {

// By tiles, in a launch of its own: int8 activations and blocks of 32, f32
// activations and any weight. Minima, rows without eight equal segments: by
// columns.
// CHECK-LABEL: func.func @prefill(
// CHECK:         ds4.linear {{.+}} {ds4.columns = 64 : i32} : (!ds4.q8<64x256>, !ds4.weight<96x256xq8_0>)
// CHECK:         ds4.linear {{.+}} {ds4.columns = 8 : i32} : (!ds4.q8<64x256>, !ds4.weight<96x256xq4_1>)
// CHECK:         ds4.linear {{.+}} {ds4.columns = 64 : i32} : (tensor<64x256xf32>, !ds4.weight<96x256xq8_0>)
// CHECK:         ds4.linear {{.+}} {ds4.columns = 8 : i32} : (!ds4.q8<64x96>, !ds4.weight<96x96xq8_0>)
func.func @prefill(%t: tensor<64xi32>, %x: tensor<64x256xf32>) -> (tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>) {
  %w = ds4.weight "w" : !ds4.weight<96x256xq8_0>
  %v = ds4.weight "v" : !ds4.weight<96x256xq4_1>
  %u = ds4.weight "u" : !ds4.weight<96x96xq8_0>
  %q = ds4.quantize %x : (tensor<64x256xf32>) -> !ds4.q8<64x256>
  // expected-remark @+1 {{not fused: linear does tiles of rows}}
  %0 = ds4.linear %q, %w : (!ds4.q8<64x256>, !ds4.weight<96x256xq8_0>) -> tensor<64x96xf32>
  %1 = ds4.linear %q, %v : (!ds4.q8<64x256>, !ds4.weight<96x256xq4_1>) -> tensor<64x96xf32>
  %2 = ds4.linear %x, %w : (tensor<64x256xf32>, !ds4.weight<96x256xq8_0>) -> tensor<64x96xf32>
  // expected-remark @+1 {{not fused: linear does tiles of rows}}
  %p = ds4.quantize %0 : (tensor<64x96xf32>) -> !ds4.q8<64x96>
  %3 = ds4.linear %p, %u : (!ds4.q8<64x96>, !ds4.weight<96x96xq8_0>) -> tensor<64x96xf32>
  return %0, %1, %2, %3 : tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>, tensor<64x96xf32>
}

}
