// RUN: ds4-opt %s --ds4-fuse-compressor --split-input-file | FileCheck %s
// RUN: ds4-opt %s --ds4-fuse-compressor=explain --split-input-file --verify-diagnostics -o /dev/null

// One token a step: from the projections to all three caches.
// CHECK-LABEL: func.func @decode(
// CHECK:         ds4.launch "projections" {
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.ape_add
// CHECK-NEXT:      ds4.compress
// CHECK-NEXT:      ds4.append
// CHECK-NEXT:      ds4.append
// CHECK-NEXT:      ds4.rms_norm
// CHECK-NEXT:      ds4.append
// CHECK-NEXT: {{^ +}$}}
// CHECK-NEXT:    return
func.func @decode(%x: tensor<1x64xf32>) {
  %w = ds4.weight "w" : !ds4.weight<32x64xf16>
  %v = ds4.weight "v" : !ds4.weight<32x64xf16>
  %ape = ds4.weight "ape" : !ds4.weight<4x32xf32>
  %kr = ds4.state "kv_ring" : !ds4.state<8x32xf32>
  %gr = ds4.state "gate_ring" : !ds4.state<8x32xf32>
  %rows = ds4.state "rows" {rows = #ds4.rows<windows 4>} : !ds4.state<64x32xf32>
  %k = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<32x64xf16>) -> tensor<1x32xf32>
  %g = ds4.linear %x, %v : (tensor<1x64xf32>, !ds4.weight<32x64xf16>) -> tensor<1x32xf32>
  %h = ds4.ape_add %g, %ape : (tensor<1x32xf32>, !ds4.weight<4x32xf32>) -> tensor<1x32xf32>
  %r = ds4.compress %k, %h, %kr, %gr ratio 4 : (tensor<1x32xf32>, tensor<1x32xf32>, !ds4.state<8x32xf32>, !ds4.state<8x32xf32>) -> tensor<1x32xf32>
  ds4.append %k, %kr : tensor<1x32xf32>, !ds4.state<8x32xf32>
  ds4.append %h, %gr : tensor<1x32xf32>, !ds4.state<8x32xf32>
  %n = ds4.rms_norm %r eps 1.0e-6 {rows = #ds4.rows<windows 4>} : (tensor<1x32xf32>) -> tensor<1x32xf32>
  ds4.append %n, %rows {rows = #ds4.rows<windows 4>} : tensor<1x32xf32>, !ds4.state<64x32xf32>
  return
}

// -----
// Several tokens a step: windows pool what other rows of the step have made and
// read the rings that the appends overwrite.
// CHECK-LABEL: func.func @prefill(
// CHECK-NOT:     ds4.launch
// CHECK:         ds4.ape_add
// CHECK:         ds4.launch "compressor" {
// CHECK-NEXT:      ds4.compress
// CHECK-NEXT:      ds4.rms_norm
// CHECK-NEXT:      ds4.append
// CHECK-NEXT: {{^ +}$}}
// CHECK:         ds4.append
func.func @prefill(%k: tensor<8x32xf32>, %g: tensor<8x32xf32>) {
  %ape = ds4.weight "ape" : !ds4.weight<4x32xf32>
  %kr = ds4.state "kv_ring" : !ds4.state<8x32xf32>
  %gr = ds4.state "gate_ring" : !ds4.state<8x32xf32>
  %rows = ds4.state "rows" {rows = #ds4.rows<windows 4>} : !ds4.state<64x32xf32>
  %h = ds4.ape_add %g, %ape : (tensor<8x32xf32>, !ds4.weight<4x32xf32>) -> tensor<8x32xf32>
  %r = ds4.compress %k, %h, %kr, %gr ratio 4 : (tensor<8x32xf32>, tensor<8x32xf32>, !ds4.state<8x32xf32>, !ds4.state<8x32xf32>) -> tensor<2x32xf32>
  ds4.append %k, %kr : tensor<8x32xf32>, !ds4.state<8x32xf32>
  %n = ds4.rms_norm %r eps 1.0e-6 {rows = #ds4.rows<windows 4>} : (tensor<2x32xf32>) -> tensor<2x32xf32>
  ds4.append %n, %rows {rows = #ds4.rows<windows 4>} : tensor<2x32xf32>, !ds4.state<64x32xf32>
  return
}

// -----
// The norm of tokens is no row of windows.
func.func @mixed(%k: tensor<8x32xf32>, %kr: !ds4.state<8x32xf32>, %gr: !ds4.state<8x32xf32>) -> tensor<2x32xf32> {
  %r = ds4.compress %k, %k, %kr, %gr ratio 4 : (tensor<8x32xf32>, tensor<8x32xf32>, !ds4.state<8x32xf32>, !ds4.state<8x32xf32>) -> tensor<2x32xf32>
  // expected-remark @+1 {{not fused: rms_norm has other rows than compress, which it reads}}
  %n = ds4.rms_norm %r eps 1.0e-6 : (tensor<2x32xf32>) -> tensor<2x32xf32>
  return %n : tensor<2x32xf32>
}
