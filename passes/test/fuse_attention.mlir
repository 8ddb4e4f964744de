// RUN: ds4-opt %s --ds4-fuse-attention --split-input-file | FileCheck %s

// Norm and rotation of the queries; index scores and their selection; attention
// up to what the output projection reads.
// CHECK-LABEL: func.func @attention(
// CHECK:         %[[Q:.+]] = ds4.launch "queries"
// CHECK-NEXT:      ds4.rms_norm
// CHECK-NEXT:      ds4.rope
// CHECK:         %[[I:.+]] = ds4.launch "index_queries"
// CHECK-NEXT:      ds4.rope
// CHECK-NEXT:      ds4.hadamard
// CHECK-NEXT:      ds4.simulate
// CHECK:         %[[S:.+]] = ds4.launch "indexer"
// CHECK-NEXT:      ds4.index_score %[[I]]
// CHECK-NEXT:      ds4.top_k
// CHECK:         ds4.launch "attention"
// CHECK-NEXT:      ds4.attend %[[Q]], {{.*}} selected %[[S]]
// CHECK-NEXT:      ds4.rope {{.*}} inverse
// CHECK-NEXT:      ds4.reshape
// CHECK-NEXT:      ds4.quantize
func.func @attention(%q0: tensor<1x2x64xf32>, %i0: tensor<1x2x32xf32>, %u: tensor<1x2xf32>,
                     %kv: tensor<1x64xf32>, %t: tensor<512x32xf32>) -> !ds4.q8<1x128> {
  %keys = ds4.state "keys" : !ds4.state<64x32xf32>
  %ring = ds4.state "ring" : !ds4.state<64x64xf32>
  %rows = ds4.state "rows" : !ds4.state<64x64xf32>
  %sinks = ds4.weight "sinks" : !ds4.weight<2xf32>
  %qn = ds4.rms_norm %q0 eps 1.0e-6 : (tensor<1x2x64xf32>) -> tensor<1x2x64xf32>
  %q = ds4.rope %qn, %t : (tensor<1x2x64xf32>, tensor<512x32xf32>) -> tensor<1x2x64xf32>
  %i1 = ds4.rope %i0, %t : (tensor<1x2x32xf32>, tensor<512x32xf32>) -> tensor<1x2x32xf32>
  %i2 = ds4.hadamard %i1 : (tensor<1x2x32xf32>) -> tensor<1x2x32xf32>
  %i = ds4.simulate %i2 fp4 width 32 : (tensor<1x2x32xf32>) -> tensor<1x2x32xf32>
  %s = ds4.index_score %i, %u, %keys scale 0.1 ratio 4 top_k 16 : (tensor<1x2x32xf32>, tensor<1x2xf32>, !ds4.state<64x32xf32>) -> tensor<1x64xf32>
  %k = ds4.top_k %s k 16 ratio 4 : (tensor<1x64xf32>) -> tensor<1x16xi32>
  %o = ds4.attend %q, %kv, %ring, %sinks compressed %rows selected %k window 32 ratio 4 scale 0.1 : (tensor<1x2x64xf32>, tensor<1x64xf32>, !ds4.state<64x64xf32>, !ds4.weight<2xf32>, !ds4.state<64x64xf32>, tensor<1x16xi32>) -> tensor<1x2x64xf32>
  %p = ds4.rope %o, %t inverse : (tensor<1x2x64xf32>, tensor<512x32xf32>) -> tensor<1x2x64xf32>
  %v = ds4.reshape %p : (tensor<1x2x64xf32>) -> tensor<1x128xf32>
  %r = ds4.quantize %v : (tensor<1x128xf32>) -> !ds4.q8<1x128>
  return %r : !ds4.q8<1x128>
}

// -----
// With one token a step on a GPU norm and rotation follow the product; with
// more they are a launch of their own.
module attributes {ds4.profile = {target = "sm_90"}} {
// CHECK-LABEL: func.func @gpu_one_token(
// CHECK:         ds4.launch "queries"
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.reshape
// CHECK-NEXT:      ds4.rms_norm
// CHECK-NEXT:      ds4.rope
// CHECK:         ds4.attend
func.func @gpu_one_token(%x: tensor<1x64xf32>, %kv: tensor<1x64xf32>, %t: tensor<512x32xf32>) -> tensor<1x2x64xf32> {
  %w = ds4.weight "w" : !ds4.weight<128x64xf16>
  %ring = ds4.state "ring" : !ds4.state<64x64xf32>
  %sinks = ds4.weight "sinks" : !ds4.weight<2xf32>
  %y = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<128x64xf16>) -> tensor<1x128xf32>
  %q0 = ds4.reshape %y : (tensor<1x128xf32>) -> tensor<1x2x64xf32>
  %qn = ds4.rms_norm %q0 eps 1.0e-6 : (tensor<1x2x64xf32>) -> tensor<1x2x64xf32>
  %q = ds4.rope %qn, %t : (tensor<1x2x64xf32>, tensor<512x32xf32>) -> tensor<1x2x64xf32>
  %o = ds4.attend %q, %kv, %ring, %sinks window 32 ratio 0 scale 0.1 : (tensor<1x2x64xf32>, tensor<1x64xf32>, !ds4.state<64x64xf32>, !ds4.weight<2xf32>) -> tensor<1x2x64xf32>
  return %o : tensor<1x2x64xf32>
}

// CHECK-LABEL: func.func @gpu_two_tokens(
// CHECK:         ds4.linear
// CHECK:         ds4.launch "queries"
// CHECK-NEXT:      ds4.rms_norm
// CHECK-NEXT:      ds4.rope
// CHECK:         ds4.attend
func.func @gpu_two_tokens(%x: tensor<2x64xf32>, %kv: tensor<2x64xf32>, %t: tensor<512x32xf32>) -> tensor<2x2x64xf32> {
  %w = ds4.weight "w" : !ds4.weight<128x64xf16>
  %ring = ds4.state "ring" : !ds4.state<64x64xf32>
  %sinks = ds4.weight "sinks" : !ds4.weight<2xf32>
  %y = ds4.linear %x, %w : (tensor<2x64xf32>, !ds4.weight<128x64xf16>) -> tensor<2x128xf32>
  %q0 = ds4.reshape %y : (tensor<2x128xf32>) -> tensor<2x2x64xf32>
  %qn = ds4.rms_norm %q0 eps 1.0e-6 : (tensor<2x2x64xf32>) -> tensor<2x2x64xf32>
  %q = ds4.rope %qn, %t : (tensor<2x2x64xf32>, tensor<512x32xf32>) -> tensor<2x2x64xf32>
  %o = ds4.attend %q, %kv, %ring, %sinks window 32 ratio 0 scale 0.1 : (tensor<2x2x64xf32>, tensor<2x64xf32>, !ds4.state<64x64xf32>, !ds4.weight<2xf32>) -> tensor<2x2x64xf32>
  return %o : tensor<2x2x64xf32>
}
}
