// RUN: ds4c %s --from=fused --target=host --emit=hip | FileCheck %s

// Elementwise ops are printed, a line a value; those that follow one another in
// a launch are one loop, and what only it reads is never stored. A view cuts
// items anew and ends the loop, as does another row.
// CHECK:      // unit [[CHAIN:chain_[0-9a-f]{8}]]: chain
// CHECK:      namespace body0 { // combine + swiglu
// CHECK-NEXT: constexpr u32 kRatio = 1;
// CHECK-NEXT: constexpr u32 kTile = 128;
// CHECK-NEXT: #include "elements.h"
// CHECK-NEXT: DS4_DEVICE void run(u32 block, u32 row, const float *in0, const float *in1, const float *in2, float *out3, const Step *step) {
// CHECK-NEXT:   if (row >= row_count(kRatio, step))
// CHECK-NEXT:     return;
// CHECK-NEXT:   in0 += static_cast<u64>(row) * 256;
// CHECK-NEXT:   in1 += static_cast<u64>(row) * 2;
// CHECK-NEXT:   in2 += static_cast<u64>(row) * 128;
// CHECK-NEXT:   out3 += static_cast<u64>(row) * 128;
// CHECK-NEXT:   each_item<1>(
// CHECK-NEXT:       block, 128,
// CHECK-NEXT:       [&](u32 i, float (&out)[1]) {
// CHECK-NEXT:         const float [[Y0:v[0-9]+]] = in0[i];
// CHECK-NEXT:         const float [[S0:v[0-9]+]] = in1[0] * [[Y0]];
// CHECK-NEXT:         const float [[Y1:v[0-9]+]] = in0[128 + i];
// CHECK-NEXT:         const float [[S1:v[0-9]+]] = fma_f32(in1[1], [[Y1]], [[S0]]);
// CHECK-NEXT:         const float [[E:v[0-9]+]] = in2[i];
// CHECK-NEXT:         const float [[C:v[0-9]+]] = [[S1]] + [[E]];
// CHECK-NEXT:         const float [[G:v[0-9]+]] = [[C]] > 0x1.8p+1f ? 0x1.8p+1f : [[C]];
// CHECK-NEXT:         const float [[U:v[0-9]+]] = [[E]] > 0x1.8p+1f ? 0x1.8p+1f : [[E]] < -0x1.8p+1f ? -0x1.8p+1f : [[E]];
// CHECK-NEXT:         const float [[R:v[0-9]+]] = ([[G]] * sigmoid_f32([[G]])) * [[U]];
// CHECK-NEXT:         out[0] = [[R]];
// CHECK-NEXT:       },
// CHECK-NEXT:       [&](u32 i, const float (&out)[1]) {
// CHECK-NEXT:         out3[i] = out[0];
// CHECK-NEXT:       });
// CHECK-NEXT: }

// A value that somebody else reads is stored as well; a learned embedding is
// decoded where it is added.
// CHECK:      // unit {{.*}}: kept
// CHECK:      namespace body0 { // ape_add + swiglu, f16
// CHECK:        in1 += row_position(kRatio, step, row) % 4 * 256;
// CHECK:        each_item<2>(
// CHECK:          const float [[A:v[0-9]+]] = {{v[0-9]+}} + weight_at(in1, i, nullptr);
// CHECK:          out[0] = [[A]];
// CHECK-NEXT:     out[1] = {{v[0-9]+}};
// CHECK:          out2[i] = out[0];
// CHECK-NEXT:     out3[i] = out[1];

// CHECK:      // unit {{.*}}: apart
// CHECK:      namespace body0 { // swiglu
// CHECK:      namespace body1 { // swiglu
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 128, ds4.context = 128} {
  func.func @decode(%tokens: tensor<1xi32>) -> (tensor<1x128xf32>, tensor<1xi32>) {
    %table = ds4.weight "token_embd.weight" : !ds4.weight<128x128xf16>
    %ape = ds4.weight "ape" : !ds4.weight<4x128xf16>
    %streams = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<128x128xf16>) -> tensor<1x2x128xf32>
    %others = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<128x128xf16>) -> tensor<1x1x128xf32>
    %x = ds4.reshape %others : (tensor<1x1x128xf32>) -> tensor<1x128xf32>
    %head = ds4.weight "output.weight" : !ds4.weight<2x128xf16>
    %w = ds4.linear %x, %head : (tensor<1x128xf32>, !ds4.weight<2x128xf16>) -> tensor<1x2xf32>
    %chain = ds4.launch "chain" : tensor<1x128xf32> {
      %c = ds4.combine %streams, %w, %x : (tensor<1x2x128xf32>, tensor<1x2xf32>, tensor<1x128xf32>) -> tensor<1x128xf32>
      %s = ds4.swiglu %c, %x limit 3.0 : tensor<1x128xf32>
      ds4.yield %s : tensor<1x128xf32>
    }
    %kept:2 = ds4.launch "kept" : tensor<1x128xf32>, tensor<1x128xf32> {
      %a = ds4.ape_add %chain, %ape : (tensor<1x128xf32>, !ds4.weight<4x128xf16>) -> tensor<1x128xf32>
      %s = ds4.swiglu %a, %a limit 3.0 : tensor<1x128xf32>
      ds4.yield %a, %s : tensor<1x128xf32>, tensor<1x128xf32>
    }
    %apart = ds4.launch "apart" : tensor<1x2x64xf32> {
      %s = ds4.swiglu %kept#0, %kept#1 limit 3.0 : tensor<1x128xf32>
      %v = ds4.reshape %s : (tensor<1x128xf32>) -> tensor<1x2x64xf32>
      %t = ds4.swiglu %v, %v limit 3.0 : tensor<1x2x64xf32>
      ds4.yield %t : tensor<1x2x64xf32>
    }
    %y = ds4.reshape %apart : (tensor<1x2x64xf32>) -> tensor<1x128xf32>
    %argmax = ds4.argmax %y : (tensor<1x128xf32>) -> tensor<1xi32>
    return %y, %argmax : tensor<1x128xf32>, tensor<1xi32>
  }
}
