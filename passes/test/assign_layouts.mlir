// RUN: ds4-opt %s --split-input-file --ds4-assign-layouts | FileCheck %s
// RUN: ds4-opt %s --split-input-file --verify-diagnostics \
// RUN:   --ds4-assign-layouts=explain=true -o /dev/null

// Products with int8 activations take `lanes`; observing a weight reads
// nothing. Embeddings, float weights and products with f32 activations stay.
// CHECK-LABEL: func.func @products(
//       CHECK:   ds4.weight "table" : <96x256xq8_0>{{$}}
//       CHECK:   ds4.weight "norm" : <256xf32>{{$}}
//       CHECK:   ds4.weight "linear" : <64x256xq8_0, lanes>
//       CHECK:   ds4.weight "float" : <64x256xq8_0>{{$}}
//       CHECK:   ds4.weight "gate" : <8x32x256xq2_0_rocmfp2, lanes>
//       CHECK:   ds4.weight "up" : <8x32x256xq2_0_rocmfp2, lanes>
//       CHECK:   ds4.linear {{.*}} !ds4.weight<64x256xq8_0, lanes>
func.func @products(%tokens: tensor<1xi32>, %e: tensor<1x3xi32>) {
  %table = ds4.weight "table" : !ds4.weight<96x256xq8_0>
  %norm = ds4.weight "norm" : !ds4.weight<256xf32>
  %linear = ds4.weight "linear" : !ds4.weight<64x256xq8_0>
  %float = ds4.weight "float" : !ds4.weight<64x256xq8_0>
  %gate = ds4.weight "gate" : !ds4.weight<8x32x256xq2_0_rocmfp2>
  %up = ds4.weight "up" : !ds4.weight<8x32x256xq2_0_rocmfp2>
  %s = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<96x256xq8_0>) -> tensor<1x1x256xf32>
  %r = ds4.reshape %s : (tensor<1x1x256xf32>) -> tensor<1x256xf32>
  %x = ds4.rms_norm %r, %norm eps 1.0e-6 : (tensor<1x256xf32>, !ds4.weight<256xf32>) -> tensor<1x256xf32>
  %q = ds4.quantize %x : (tensor<1x256xf32>) -> !ds4.q8<1x256>
  ds4.observe %x, %linear : tensor<1x256xf32>, !ds4.weight<64x256xq8_0>
  %a = ds4.linear %q, %linear : (!ds4.q8<1x256>, !ds4.weight<64x256xq8_0>) -> tensor<1x64xf32>
  %b = ds4.linear %x, %float : (tensor<1x256xf32>, !ds4.weight<64x256xq8_0>) -> tensor<1x64xf32>
  %g:2 = ds4.expert_gate_up %q, %e, %gate, %up : (!ds4.q8<1x256>, tensor<1x3xi32>, !ds4.weight<8x32x256xq2_0_rocmfp2>, !ds4.weight<8x32x256xq2_0_rocmfp2>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  return
}

// -----

// A short row has no 8 segments of whole blocks; what is read beside it stays
// as in the file too, since one kernel reads both.
// CHECK-LABEL: func.func @short_rows(
//   CHECK-NOT:   lanes
func.func @short_rows(%q: !ds4.q8<1x128>, %p: !ds4.q8<1x1024>) {
  // expected-remark @+1 {{stays in the file's layout: a row of 128 elements of q8_0 has no 8 segments of whole blocks}}
  %w = ds4.weight "w" : !ds4.weight<64x128xq8_0>
  // expected-remark @+1 {{stays in the file's layout: a row of 1024 elements of q6_K has no 8 segments}}
  %k = ds4.weight "k" : !ds4.weight<64x1024xq6_K>
  %a = ds4.linear %q, %w : (!ds4.q8<1x128>, !ds4.weight<64x128xq8_0>) -> tensor<1x64xf32>
  %b = ds4.linear %p, %k : (!ds4.q8<1x1024>, !ds4.weight<64x1024xq6_K>) -> tensor<1x64xf32>
  return
}

// -----

// Functions share a tensor: one that reads it as in the file decides.
// CHECK-LABEL: func.func @decode(
//       CHECK:   ds4.weight "head" : <64x256xq8_0>{{$}}
func.func @decode(%q: !ds4.q8<1x256>) {
  // expected-remark @+1 {{stays in the file's layout: ds4.linear reads rows as in the file: its activations are f32}}
  %w = ds4.weight "head" : !ds4.weight<64x256xq8_0>
  %a = ds4.linear %q, %w : (!ds4.q8<1x256>, !ds4.weight<64x256xq8_0>) -> tensor<1x64xf32>
  return
}
// CHECK-LABEL: func.func @prefill(
//       CHECK:   ds4.weight "head" : <64x256xq8_0>{{$}}
func.func @prefill(%x: tensor<8x256xf32>) {
  %w = ds4.weight "head" : !ds4.weight<64x256xq8_0>
  %a = ds4.linear %x, %w : (tensor<8x256xf32>, !ds4.weight<64x256xq8_0>) -> tensor<8x64xf32>
  return
}

// -----

// CHECK-LABEL: func.func @partners(
//       CHECK:   ds4.weight "gate" : <4x32x256xq8_0>{{$}}
//       CHECK:   ds4.weight "up" : <4x32x256xq8_0>{{$}}
func.func @partners(%q: !ds4.q8<1x256>, %x: tensor<1x3x256xf32>, %e: tensor<1x3xi32>) {
  // expected-remark @+1 {{stays in the file's layout: 'up', which is read beside it, is in the file's layout}}
  %gate = ds4.weight "gate" : !ds4.weight<4x32x256xq8_0>
  // expected-remark @+1 {{stays in the file's layout: ds4.expert_down reads rows as in the file: its activations are f32}}
  %up = ds4.weight "up" : !ds4.weight<4x32x256xq8_0>
  %g:2 = ds4.expert_gate_up %q, %e, %gate, %up : (!ds4.q8<1x256>, tensor<1x3xi32>, !ds4.weight<4x32x256xq8_0>, !ds4.weight<4x32x256xq8_0>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  %d = ds4.expert_down %x, %e, %up : (tensor<1x3x256xf32>, tensor<1x3xi32>, !ds4.weight<4x32x256xq8_0>) -> tensor<1x3x32xf32>
  return
}
