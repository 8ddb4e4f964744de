// RUN: ds4c %s --from=fused --target=host --emit=hip | FileCheck %s
// RUN: ds4c %s --from=fused --target=host --emit=plan | FileCheck %s --check-prefix=PLAN

// A launch of two parts. In the first a linear of two blocks is followed in
// each by swiglu, which reads no more than the block's tile, and then, in the
// block that finishes last, by a norm of the whole row. The second part is a
// body that needs nothing of the first.
// CHECK:       // unit [[FUSED:together_[0-9a-f]+]]: together
// CHECK:       constexpr u32 kThreads = 64;
// CHECK:       namespace body0 { // linear, q8_0
// CHECK:       namespace body1 { // swiglu
// CHECK:         constexpr u32 kTile = 64;
// CHECK:       namespace body2 { // rms_norm
// CHECK:       namespace body3 { // quantize
// CHECK:       void [[FUSED]](void *a0, {{.*}}, u32 *tickets, const Step *step) {
// CHECK-NEXT:    u32 block = block_x();
// CHECK-NEXT:    const u32 row = block_y();
// CHECK-NEXT:    if (block < 2) {
// CHECK-NEXT:      body0::run(block, row, {{.*}});
// CHECK-NEXT:      barrier();
// CHECK-NEXT:      body1::run(block, row, {{.*}});
// CHECK-NEXT:      if (!last_block(tickets + 0 + row, 2))
// CHECK-NEXT:        return;
// CHECK-NEXT:      body2::run(0, row, {{.*}});
// CHECK-NEXT:      return;
// CHECK-NEXT:    }
// CHECK-NEXT:    block -= 2;
// CHECK-NEXT:    body3::run(block, row, {{.*}});
// CHECK-NEXT:  }

// PLAN:      "tickets": 1,
// PLAN:      "label": "together",
// PLAN-NEXT: "layer": 2,
// PLAN-NEXT: "grid": [3, 1],
// PLAN:      "tickets:0", "step"
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 128, ds4.context = 128} {
  func.func @decode(%tokens: tensor<1xi32>) -> (tensor<1x128xf32>, tensor<1xi32>) {
    %table = ds4.weight "token_embd.weight" : !ds4.weight<128x64xf16>
    %head = ds4.weight "output.weight" : !ds4.weight<128x64xq8_0>
    %streams = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<128x64xf16>) -> tensor<1x1x64xf32>
    %x = ds4.reshape %streams : (tensor<1x1x64xf32>) -> tensor<1x64xf32>
    %q = ds4.quantize %x : (tensor<1x64xf32>) -> !ds4.q8<1x64>
    %r:2 = ds4.launch "together" attributes {ds4.layer = 2 : i32} : tensor<1x128xf32>, !ds4.q8<1x64> {
      %y = ds4.linear %q, %head : (!ds4.q8<1x64>, !ds4.weight<128x64xq8_0>) -> tensor<1x128xf32>
      %s = ds4.swiglu %y, %y limit 3.0 : tensor<1x128xf32>
      %n = ds4.rms_norm %s eps 1.0e-6 : (tensor<1x128xf32>) -> tensor<1x128xf32>
      %again = ds4.quantize %x : (tensor<1x64xf32>) -> !ds4.q8<1x64>
      ds4.yield %n, %again : tensor<1x128xf32>, !ds4.q8<1x64>
    }
    %argmax = ds4.argmax %r#0 : (tensor<1x128xf32>) -> tensor<1xi32>
    return %r#0, %argmax : tensor<1x128xf32>, tensor<1xi32>
  }
}
