// RUN: ds4c %s --from=fused --target=sm_90 --emit=hip | FileCheck %s
// RUN: ds4c %s --from=fused --target=sm_90 --emit=plan | FileCheck %s --check-prefix=PLAN

// A site of a hyper-connection: one body makes the streams and the dot products,
// another all the rest; nothing comes behind.
// CHECK:       // unit [[SITE:site_[0-9a-f]+]]: site
// CHECK:       namespace body0 { // hc_mix
// CHECK:         constexpr u32 kPost = 1;
// CHECK:       namespace body1 { // hc_spread
// CHECK:         constexpr u32 kNorm = 1;
// CHECK:         constexpr u32 kQuantized = 1;
// CHECK-NOT:   namespace body2
// CHECK:       void [[SITE]]({{.*}}) {
// CHECK:         body0::run(block, row, {{.*}});
// CHECK-NEXT:    if (!last_block(tickets + (0 + (block) / 17) * 1 + row, 17))
// CHECK-NEXT:      return;
// CHECK-NEXT:    let_next_begin();
// CHECK-NEXT:    body1::run((block) / 17, row, {{.*}});
// CHECK-NEXT:    wait_for_previous();
// CHECK-NEXT:  }

// Heads of 64 rows, 32 a block: the last of two blocks has a head.
// CHECK:       // unit [[HEADS:heads_[0-9a-f]+]]: heads
// CHECK:       namespace body1 { // rms_norm
// CHECK:       namespace body2 { // rope
// CHECK:       void [[HEADS]]({{.*}}) {
// CHECK:         body0::run(block, row, {{.*}});
// CHECK-NEXT:    if (!last_block(tickets + (0 + (block) / 2) * 1 + row, 2))
// CHECK-NEXT:      return;
// CHECK-NEXT:    let_next_begin();
// CHECK-NEXT:    body1::run((block) / 2, row, {{.*}});
// CHECK-NEXT:    barrier();
// CHECK-NEXT:    body2::run((block) / 2, row, {{.*}});
// CHECK-NEXT:  }

// Attention: tiles, then a head a block.
// CHECK:       // unit [[TILES:attend_tiles_[0-9a-f]+]]: attend_tiles
// CHECK:       // unit [[ATTEND:attend_[0-9a-f]+]]: attend
// CHECK:       void [[ATTEND]]({{.*}}, void *scratch, const Step *step) {
// CHECK-NOT:     last_block

// PLAN:      "label": "site",
// PLAN-NEXT: "layer": -1,
// PLAN-NEXT: "grid": [34, 1],
// PLAN:      "label": "heads",
// PLAN-NEXT: "layer": -1,
// PLAN-NEXT: "grid": [8, 1],
// PLAN:      "label": "attend_tiles",
// PLAN-NEXT: "layer": -1,
// PLAN-NEXT: "grid": [2, 1],
// PLAN:      "label": "attend",
// PLAN-NEXT: "layer": -1,
// PLAN-NEXT: "grid": [4, 1],
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {target = "sm_90"}, ds4.layers = 1, ds4.vocab = 256, ds4.context = 128} {
  func.func @decode(%tokens: tensor<1xi32>) -> (tensor<1x256xf32>, tensor<1xi32>) {
    %table = ds4.weight "token_embd.weight" : !ds4.weight<128x256xf16>
    %fn = ds4.weight "fn" : !ds4.weight<24x1024xf16>
    %scale = ds4.weight "scale" : !ds4.weight<3xf32>
    %base = ds4.weight "base" : !ds4.weight<24xf32>
    %gain = ds4.weight "gain" : !ds4.weight<256xf32>
    %w = ds4.weight "w" : !ds4.weight<256x256xq8_0>
    %wkv = ds4.weight "wkv" : !ds4.weight<64x256xf32>
    %ring = ds4.state "ring" : !ds4.state<32x64xf32>
    %sinks = ds4.weight "sinks" : !ds4.weight<4xf32>
    %t = ds4.rope_table "rope" base 1.0e4 factor 1.0 original 65536 beta 32.0, 1.0 : tensor<128x32xf32>
    %streams = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<128x256xf16>) -> tensor<1x4x256xf32>
    %first:3 = ds4.hc_pre %streams, %fn, %scale, %base eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<1x4x256xf32>, !ds4.weight<24x1024xf16>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<1x256xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>)
    %r:4 = ds4.launch "site" : tensor<1x256xf32>, !ds4.q8<1x256>, tensor<1x4xf32>, tensor<1x4x4xf32> {
      %s = ds4.hc_post %first#0, %streams, %first#1, %first#2 : (tensor<1x256xf32>, tensor<1x4x256xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>) -> tensor<1x4x256xf32>
      %x, %p, %c = ds4.hc_pre %s, %fn, %scale, %base eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<1x4x256xf32>, !ds4.weight<24x1024xf16>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<1x256xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>)
      %n = ds4.rms_norm %x, %gain eps 1.0e-6 : (tensor<1x256xf32>, !ds4.weight<256xf32>) -> tensor<1x256xf32>
      %q = ds4.quantize %n : (tensor<1x256xf32>) -> !ds4.q8<1x256>
      ds4.yield %n, %q, %p, %c : tensor<1x256xf32>, !ds4.q8<1x256>, tensor<1x4xf32>, tensor<1x4x4xf32>
    }
    %h = ds4.launch "heads" : tensor<1x4x64xf32> {
      %y = ds4.linear %r#1, %w : (!ds4.q8<1x256>, !ds4.weight<256x256xq8_0>) -> tensor<1x256xf32>
      %v = ds4.reshape %y : (tensor<1x256xf32>) -> tensor<1x4x64xf32>
      %n = ds4.rms_norm %v eps 1.0e-6 : (tensor<1x4x64xf32>) -> tensor<1x4x64xf32>
      %q = ds4.rope %n, %t : (tensor<1x4x64xf32>, tensor<128x32xf32>) -> tensor<1x4x64xf32>
      ds4.yield %q : tensor<1x4x64xf32>
    }
    %row = ds4.linear %r#0, %wkv : (tensor<1x256xf32>, !ds4.weight<64x256xf32>) -> tensor<1x64xf32>
    %o = ds4.attend %h, %row, %ring, %sinks window 16 ratio 0 scale 0.1 : (tensor<1x4x64xf32>, tensor<1x64xf32>, !ds4.state<32x64xf32>, !ds4.weight<4xf32>) -> tensor<1x4x64xf32>
    %logits = ds4.reshape %o : (tensor<1x4x64xf32>) -> tensor<1x256xf32>
    %argmax = ds4.argmax %logits : (tensor<1x256xf32>) -> tensor<1xi32>
    return %logits, %argmax : tensor<1x256xf32>, tensor<1xi32>
  }
}
