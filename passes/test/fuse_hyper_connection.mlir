// RUN: ds4-opt %s --ds4-fuse-hyper-connection --split-input-file | FileCheck %s

// From hc_post to the quantised input of the next sublayer; the f32 form leaves
// too, since somebody else reads it.
// CHECK-LABEL: func.func @fuses(
// CHECK:         %[[R:.+]]:3 = ds4.launch "hyper_connection" attributes {ds4.layer = 3 : i32} : tensor<1x4x64xf32>, tensor<1x64xf32>, !ds4.q8<1x64> {
// CHECK-NEXT:      %[[S:.+]] = ds4.hc_post
// CHECK-NEXT:      %[[X:x.*]], %{{.+}}, %{{.+}} = ds4.hc_pre %[[S]]
// CHECK-NEXT:      %[[N:.+]] = ds4.rms_norm %[[X]]
// CHECK-NEXT:      %[[Q:.+]] = ds4.quantize %[[N]]
// CHECK-NEXT:      ds4.yield %[[S]], %[[N]], %[[Q]]
// CHECK:         return %[[R]]#0, %[[R]]#1, %[[R]]#2
func.func @fuses(%y: tensor<1x64xf32>, %s: tensor<1x4x64xf32>, %p: tensor<1x4xf32>, %c: tensor<1x4x4xf32>)
    -> (tensor<1x4x64xf32>, tensor<1x64xf32>, !ds4.q8<1x64>) {
  %fn = ds4.weight "fn" : !ds4.weight<24x256xf16>
  %scale = ds4.weight "scale" : !ds4.weight<3xf32>
  %base = ds4.weight "base" : !ds4.weight<24xf32>
  %0 = ds4.hc_post %y, %s, %p, %c : (tensor<1x64xf32>, tensor<1x4x64xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x64xf32>
  %x, %post, %comb = ds4.hc_pre %0, %fn, %scale, %base eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<1x4x64xf32>, !ds4.weight<24x256xf16>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<1x64xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>)
  %n = ds4.rms_norm %x eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
  %q = ds4.quantize %n {ds4.layer = 3 : i32} : (tensor<1x64xf32>) -> !ds4.q8<1x64>
  return %0, %n, %q : tensor<1x4x64xf32>, tensor<1x64xf32>, !ds4.q8<1x64>
}

// -----
// Rows of a prefill step that need logits are not its tokens: the collapse
// alone is a launch.
// CHECK-LABEL: func.func @other_rows(
// CHECK:         ds4.hc_post
// CHECK:         ds4.take_outputs
// CHECK:         ds4.launch "hyper_connection"
// CHECK-NEXT:      ds4.head_collapse
func.func @other_rows(%y: tensor<8x64xf32>, %s: tensor<8x4x64xf32>, %p: tensor<8x4xf32>, %c: tensor<8x4x4xf32>) -> tensor<2x64xf32> {
  %fn = ds4.weight "fn" : !ds4.weight<4x256xf16>
  %scale = ds4.weight "scale" : !ds4.weight<1xf32>
  %base = ds4.weight "base" : !ds4.weight<4xf32>
  %0 = ds4.hc_post %y, %s, %p, %c : (tensor<8x64xf32>, tensor<8x4x64xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>) -> tensor<8x4x64xf32>
  %1 = ds4.take_outputs %0 : (tensor<8x4x64xf32>) -> tensor<2x4x64xf32>
  %2 = ds4.head_collapse %1, %fn, %scale, %base eps 1.0e-6, 1.0e-6 : (tensor<2x4x64xf32>, !ds4.weight<4x256xf16>, !ds4.weight<1xf32>, !ds4.weight<4xf32>) -> tensor<2x64xf32>
  return %2 : tensor<2x64xf32>
}

// -----
// On a GPU hc_post joins in steps of few tokens.
module attributes {ds4.profile = {target = "sm_90"}} {
// CHECK-LABEL: func.func @gpu_few_tokens(
// CHECK:         ds4.launch "hyper_connection"
// CHECK-NEXT:      ds4.hc_post
// CHECK-NEXT:      ds4.hc_pre
func.func @gpu_few_tokens(%y: tensor<8x64xf32>, %s: tensor<8x4x64xf32>, %p: tensor<8x4xf32>, %c: tensor<8x4x4xf32>) -> tensor<8x64xf32> {
  %fn = ds4.weight "fn" : !ds4.weight<24x256xf16>
  %scale = ds4.weight "scale" : !ds4.weight<3xf32>
  %base = ds4.weight "base" : !ds4.weight<24xf32>
  %0 = ds4.hc_post %y, %s, %p, %c : (tensor<8x64xf32>, tensor<8x4x64xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>) -> tensor<8x4x64xf32>
  %x, %post, %comb = ds4.hc_pre %0, %fn, %scale, %base eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<8x4x64xf32>, !ds4.weight<24x256xf16>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<8x64xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  return %x : tensor<8x64xf32>
}

// In longer ones it is a launch of its own.
// CHECK-LABEL: func.func @gpu_many_tokens(
// CHECK:         ds4.hc_post
// CHECK-NEXT:    ds4.launch "hyper_connection"
// CHECK-NEXT:      ds4.hc_pre
func.func @gpu_many_tokens(%y: tensor<9x64xf32>, %s: tensor<9x4x64xf32>, %p: tensor<9x4xf32>, %c: tensor<9x4x4xf32>) -> tensor<9x64xf32> {
  %fn = ds4.weight "fn" : !ds4.weight<24x256xf16>
  %scale = ds4.weight "scale" : !ds4.weight<3xf32>
  %base = ds4.weight "base" : !ds4.weight<24xf32>
  %0 = ds4.hc_post %y, %s, %p, %c : (tensor<9x64xf32>, tensor<9x4x64xf32>, tensor<9x4xf32>, tensor<9x4x4xf32>) -> tensor<9x4x64xf32>
  %x, %post, %comb = ds4.hc_pre %0, %fn, %scale, %base eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<9x4x64xf32>, !ds4.weight<24x256xf16>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<9x64xf32>, tensor<9x4xf32>, tensor<9x4x4xf32>)
  return %x : tensor<9x64xf32>
}
}
