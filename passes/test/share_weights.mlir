// RUN: ds4-opt %s --ds4-specialise-verify --ds4-layer-major | FileCheck %s
// RUN: ds4-opt %s --ds4-specialise-verify=explain --ds4-layer-major=explain --verify-diagnostics -o /dev/null

// A token a step: nothing to share.
// CHECK-LABEL: func.func @decode(
// CHECK-NOT:     ds4.columns
// expected-remark @+2 {{not specialised: a step has up to 1 tokens, not 2 to 8}}
// expected-remark @+1 {{not layer-major: a step has up to 1 tokens, no more than 8}}
func.func @decode(%t: tensor<1xi32>, %x: tensor<1x64xf32>) -> tensor<1x96xf32> {
  %w = ds4.weight "w" : !ds4.weight<96x64xf16>
  %y = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<96x64xf16>) -> tensor<1x96xf32>
  return %y : tensor<1x96xf32>
}

// CHECK-LABEL: func.func @verify(
// CHECK:         ds4.linear %{{.+}}, %{{.+}} {ds4.columns = 4 : i32}
// expected-remark @+1 {{not layer-major: a step has up to 4 tokens, no more than 8}}
func.func @verify(%t: tensor<4xi32>, %x: tensor<4x64xf32>) -> tensor<4x96xf32> {
  %w = ds4.weight "w" : !ds4.weight<96x64xf16>
  %y = ds4.linear %x, %w : (tensor<4x64xf32>, !ds4.weight<96x64xf16>) -> tensor<4x96xf32>
  return %y : tensor<4x96xf32>
}

// One row of logits of a long step stays alone.
// CHECK-LABEL: func.func @prefill(
// CHECK:         ds4.linear %{{.+}}, %{{.+}} {ds4.columns = 8 : i32}
// CHECK:         ds4.linear %{{.+}}, %{{.+}} {rows = #ds4.rows<outputs>} :
// expected-remark @+1 {{not specialised: a step has up to 64 tokens, not 2 to 8}}
func.func @prefill(%t: tensor<64xi32>, %x: tensor<64x64xf32>) -> tensor<1x96xf32> {
  %w = ds4.weight "w" : !ds4.weight<96x64xf16>
  %v = ds4.weight "v" : !ds4.weight<64x64xf16>
  %y = ds4.linear %x, %v : (tensor<64x64xf32>, !ds4.weight<64x64xf16>) -> tensor<64x64xf32>
  %o = ds4.take_outputs %y : (tensor<64x64xf32>) -> tensor<1x64xf32>
  %l = ds4.linear %o, %w {rows = #ds4.rows<outputs>} : (tensor<1x64xf32>, !ds4.weight<96x64xf16>) -> tensor<1x96xf32>
  return %l : tensor<1x96xf32>
}

// The tokens of a long step share experts, whichever of them use one.
// CHECK-LABEL: func.func @experts(
// CHECK:         %[[PAIRS:.+]] = ds4.group_pairs %[[E:.+]] of 8 :
// CHECK-NEXT:    %[[G:.+]], %{{.+}} = ds4.expert_gate_up %{{.+}}, %[[E]], %{{.+}}, %{{.+}} pairs %[[PAIRS]] {ds4.columns = 8 : i32}
// CHECK-NEXT:    ds4.expert_down %[[G]], %[[E]], %{{.+}} pairs %[[PAIRS]] {ds4.columns = 8 : i32}
// expected-remark @+1 {{not specialised: a step has up to 64 tokens, not 2 to 8}}
func.func @experts(%t: tensor<64xi32>, %x: tensor<64x32xf32>, %e: tensor<64x2xi32>) -> tensor<64x2x32xf32> {
  %w = ds4.weight "w" : !ds4.weight<8x32x32xf16>
  %g, %u = ds4.expert_gate_up %x, %e, %w, %w : (tensor<64x32xf32>, tensor<64x2xi32>, !ds4.weight<8x32x32xf16>, !ds4.weight<8x32x32xf16>) -> (tensor<64x2x32xf32>, tensor<64x2x32xf32>)
  %y = ds4.expert_down %g, %e, %w : (tensor<64x2x32xf32>, tensor<64x2xi32>, !ds4.weight<8x32x32xf16>) -> tensor<64x2x32xf32>
  return %y : tensor<64x2x32xf32>
}
