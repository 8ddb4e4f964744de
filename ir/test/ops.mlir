// RUN: ds4-opt %s | ds4-opt | FileCheck %s
// Types, row domains and optional operands survive a round trip; the default
// domain is not printed.

// CHECK-LABEL: func.func @types(
//  CHECK-SAME:   %{{.+}}: !ds4.weight<8x256x128xq2_1_rocmfp2_mix>
//  CHECK-SAME:   %{{.+}}: !ds4.weight<64x256xq8_0>,
//  CHECK-SAME:   %{{.+}}: !ds4.weight<64x256xq8_0, lanes>
//  CHECK-SAME:   %{{.+}}: !ds4.q8<1x3x256>
//  CHECK-SAME:   %{{.+}}: !ds4.state<256x512xfp8>
func.func @types(%w: !ds4.weight<8x256x128xq2_1_rocmfp2_mix>,
                 %f: !ds4.weight<64x256xq8_0, file>,
                 %l: !ds4.weight<64x256xq8_0, lanes>,
                 %q: !ds4.q8<1x3x256>, %s: !ds4.state<256x512xfp8>) {
  return
}

// CHECK-LABEL: func.func @row_domains(
// CHECK:         ds4.rms_norm %{{.+}} eps 9.99999997E-7 : (
// CHECK-NEXT:    ds4.rms_norm %{{.+}} eps 9.99999997E-7 {rows = #ds4.rows<windows 4>} : (
// CHECK-NEXT:    ds4.rms_norm %{{.+}} eps 9.99999997E-7 {rows = #ds4.rows<outputs>} : (
func.func @row_domains(%x: tensor<1x128xf32>, %w: !ds4.weight<128xf32>) {
  %0 = ds4.rms_norm %x, %w eps 1.0e-6 {rows = #ds4.rows<tokens>} : (tensor<1x128xf32>, !ds4.weight<128xf32>) -> tensor<1x128xf32>
  %1 = ds4.rms_norm %x, %w eps 1.0e-6 {rows = #ds4.rows<windows 4>} : (tensor<1x128xf32>, !ds4.weight<128xf32>) -> tensor<1x128xf32>
  %2 = ds4.rms_norm %x eps 1.0e-6 {rows = #ds4.rows<outputs>} : (tensor<1x128xf32>) -> tensor<1x128xf32>
  return
}

// CHECK-LABEL: func.func @attention(
// CHECK:         ds4.append %{{.+}}, %{{.+}} : tensor<1x128xf32>, <64x128xf16>
// CHECK:         ds4.attend %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} window 32 ratio 0 scale
// CHECK:         ds4.attend %{{.+}} compressed %{{.+}} selected %{{.+}} window 32 ratio 4 scale
func.func @attention(%q: tensor<1x8x128xf32>, %kv: tensor<1x128xf32>,
                     %sel: tensor<1x16xi32>) {
  %ring = ds4.state "blk.0.kv" : !ds4.state<64x128xf16>
  %rows = ds4.state "blk.0.rows" {rows = #ds4.rows<windows 4>} : !ds4.state<256x128xf16>
  %sinks = ds4.weight "blk.0.attn_sinks.weight" : !ds4.weight<8xf32>
  ds4.append %kv, %ring : tensor<1x128xf32>, !ds4.state<64x128xf16>
  %0 = ds4.attend %q, %kv, %ring, %sinks window 32 ratio 0 scale 0.0883883461 : (tensor<1x8x128xf32>, tensor<1x128xf32>, !ds4.state<64x128xf16>, !ds4.weight<8xf32>) -> tensor<1x8x128xf32>
  %1 = ds4.attend %q, %kv, %ring, %sinks compressed %rows selected %sel window 32 ratio 4 scale 0.0883883461 : (tensor<1x8x128xf32>, tensor<1x128xf32>, !ds4.state<64x128xf16>, !ds4.weight<8xf32>, !ds4.state<256x128xf16>, tensor<1x16xi32>) -> tensor<1x8x128xf32>
  return
}

// CHECK-LABEL: func.func @experts(
// CHECK:         ds4.rope %{{.+}}, %{{.+}} inverse :
// CHECK:         ds4.observe %{{.+}}, %{{.+}} experts %{{.+}} : tensor<1x128xf32>,
// CHECK:         ds4.expert_gate_up %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} books %{{.+}}, %{{.+}} :
// CHECK:         ds4.books "d" : tensor<8x2x12xi8>
// CHECK:         ds4.quantize %{{.+}} experts %{{.+}}, %{{.+}} : (tensor<1x3x32xf32>, tensor<1x3xi32>, tensor<8xi32>) ->
// CHECK:         ds4.expert_down %{{.+}}, %{{.+}}, %{{.+}} books %{{.+}} : (!ds4.q8<1x3x32>,
// CHECK:         ds4.linear %{{.+}}, %{{.+}} books %{{.+}} {rows = #ds4.rows<outputs>} :
func.func @experts(%x: tensor<1x128xf32>, %e: tensor<1x3xi32>) {
  %t = ds4.rope_table "rope" base 1.0e4 factor 1.0 original 65536 beta 32.0, 1.0 : tensor<512x64xf32>
  %r = ds4.rope %x, %t inverse : (tensor<1x128xf32>, tensor<512x64xf32>) -> tensor<1x128xf32>
  %g = ds4.weight "g" : !ds4.weight<8x32x128xq2_1_rocmfp2_mix>
  %u = ds4.weight "u" : !ds4.weight<8x32x128xq2_1_rocmfp2_mix>
  %gb = ds4.books "g" : tensor<8x2x4xf32>
  %ub = ds4.books "u" : tensor<8x2x4xf32>
  ds4.observe %x, %g experts %e : tensor<1x128xf32>, !ds4.weight<8x32x128xq2_1_rocmfp2_mix>, tensor<1x3xi32>
  %0:2 = ds4.expert_gate_up %x, %e, %g, %u books %gb, %ub : (tensor<1x128xf32>, tensor<1x3xi32>, !ds4.weight<8x32x128xq2_1_rocmfp2_mix>, !ds4.weight<8x32x128xq2_1_rocmfp2_mix>, tensor<8x2x4xf32>, tensor<8x2x4xf32>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  %d = ds4.weight "d" : !ds4.weight<8x64x32xq3_1_rocmfp3_mix>
  %db = ds4.books "d" : tensor<8x2x12xi8>
  %f = ds4.rotations "d" : tensor<8xi32>
  %h = ds4.quantize %0#0 experts %e, %f : (tensor<1x3x32xf32>, tensor<1x3xi32>, tensor<8xi32>) -> !ds4.q8<1x3x32>
  %1 = ds4.expert_down %h, %e, %d books %db : (!ds4.q8<1x3x32>, tensor<1x3xi32>, !ds4.weight<8x64x32xq3_1_rocmfp3_mix>, tensor<8x2x12xi8>) -> tensor<1x3x64xf32>
  %m = ds4.weight "m" : !ds4.weight<16x128xq2_1_rocmfp2_mix>
  %mb = ds4.books "m" : tensor<1x2x4xf32>
  %2 = ds4.linear %x, %m books %mb {rows = #ds4.rows<outputs>} : (tensor<1x128xf32>, !ds4.weight<16x128xq2_1_rocmfp2_mix>, tensor<1x2x4xf32>) -> tensor<1x16xf32>
  return
}

// CHECK-LABEL: func.func @launch(
// CHECK:         %[[R:.+]]:2 = ds4.launch "norms" attributes {ds4.layer = 1 : i32} : tensor<1x64xf32>, tensor<1x64xf32> {
// CHECK:           ds4.yield %{{.+}}, %{{.+}} : tensor<1x64xf32>, tensor<1x64xf32>
// CHECK:         ds4.launch "nothing_leaves" {
// CHECK-NOT:       ds4.yield
func.func @launch(%x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %ring = ds4.state "blk.0.kv" : !ds4.state<64x64xf16>
  %r:2 = ds4.launch "norms" attributes {ds4.layer = 1 : i32} : tensor<1x64xf32>, tensor<1x64xf32> {
    %a = ds4.rms_norm %x eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %b = ds4.rms_norm %a eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
    ds4.yield %b, %a : tensor<1x64xf32>, tensor<1x64xf32>
  }
  ds4.launch "nothing_leaves" {
    ds4.append %x, %ring : tensor<1x64xf32>, !ds4.state<64x64xf16>
  }
  return %r#0 : tensor<1x64xf32>
}
