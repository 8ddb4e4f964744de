// RUN: ds4c %s --from=fused --target=host --emit=hip | FileCheck %s
// RUN: ds4c %s --from=fused --target=host --emit=hip -o %t.hip
// RUN: grep -c "^// unit" %t.hip | FileCheck %s --check-prefix=COUNT

// Text of a unit: constants in front of a device file, one a line. Ops of equal
// shape share a unit: the second rms_norm adds none.
// CHECK:      // unit [[LINEAR:linear_[0-9a-f]{8}]]: linear
// CHECK-NEXT: #include "common.h"
// CHECK-NEXT: constexpr u32 kThreads = {{[0-9]+}};
// CHECK:      namespace body0 { // linear, q8_0
// CHECK-NEXT: constexpr u32 kRatio = 0;
// CHECK-NEXT: constexpr u32 kIn = 64;
// CHECK-NEXT: constexpr u32 kOut = 96;
// CHECK-NEXT: constexpr u32 kRowBytes = 68;
// CHECK-NEXT: constexpr u32 kInt8 = 0;
// CHECK-NEXT: constexpr u32 kLaneRows = 8;
// CHECK-NEXT: constexpr u32 kRowLanes = 32;
// CHECK-NEXT: constexpr u32 kStaged = 0;
// CHECK-NEXT: constexpr u32 kBookLevels = 0;
// CHECK:      #include "weights/q8_0.h"
// CHECK-NEXT: #include "layouts/file.h"
// CHECK-NEXT: #include "linear.hip"
// CHECK-NEXT: }
// CHECK:      void [[LINEAR]](void *a0, void *a1, void *a2, const Step *step) {
// CHECK-NEXT:   const u32 block = block_x();
// CHECK-NEXT:   const u32 row = block_y();
// CHECK-NEXT:   body0::run(block, row, AnyPointer{a0}, AnyPointer{a1}, nullptr, AnyPointer{a2}, step);
// CHECK-NEXT: }
// CHECK-NEXT: DS4_ENTRY([[LINEAR]])
// CHECK-EMPTY:
// COUNT: {{^}}5{{$}}
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 96, ds4.context = 128, ds4.most_rollback = 4} {
  func.func @decode(%tokens: tensor<1xi32>) -> (tensor<1x96xf32>, tensor<1xi32>) {
    %table = ds4.weight "token_embd.weight" : !ds4.weight<96x64xf16>
    %gain = ds4.weight "output_norm.weight" : !ds4.weight<64xf32>
    %head = ds4.weight "output.weight" : !ds4.weight<96x64xq8_0>
    %streams = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<96x64xf16>) -> tensor<1x1x64xf32>
    %last = ds4.take_outputs %streams : (tensor<1x1x64xf32>) -> tensor<1x1x64xf32>
    %x = ds4.reshape %last : (tensor<1x1x64xf32>) -> tensor<1x64xf32>
    %y = ds4.rms_norm %x, %gain eps 1.0e-6 {rows = #ds4.rows<outputs>} : (tensor<1x64xf32>, !ds4.weight<64xf32>) -> tensor<1x64xf32>
    %z = ds4.rms_norm %y, %gain eps 1.0e-6 {rows = #ds4.rows<outputs>} : (tensor<1x64xf32>, !ds4.weight<64xf32>) -> tensor<1x64xf32>
    %logits = ds4.linear %z, %head {rows = #ds4.rows<outputs>} : (tensor<1x64xf32>, !ds4.weight<96x64xq8_0>) -> tensor<1x96xf32>
    %argmax = ds4.argmax %logits : (tensor<1x96xf32>) -> tensor<1xi32>
    return %logits, %argmax : tensor<1x96xf32>, tensor<1xi32>
  }
}
