// RUN: ds4c %s --from=fused --target=host --emit=hip -o %t.hip
// RUN: FileCheck %s < %t.hip

// The wide loads of layout `lanes` for a row of 4096: on gfx1151 every load of
// weights has 16 bytes and blocks stay in registers.
// DEFINE: %{format} =
// DEFINE: %{prefix} =
// DEFINE: %{asm} = awk -v RS="// unit " '/linear, %{format}\n/{print RS $0}' %t.hip > %t.%{format}.hip && \
// DEFINE:   clang++ -x hip --cuda-device-only --offload-arch=gfx1151 -nogpuinc -nogpulib -O3 \
// DEFINE:     -std=c++20 -ffp-contract=off -I %source/ops -S %t.%{format}.hip -o - | \
// DEFINE:   FileCheck %s --check-prefixes=ISA,%{prefix} --implicit-check-not=scratch_ \
// DEFINE:     --implicit-check-not=global_load_u --implicit-check-not=global_load_i --implicit-check-not=global_load_d16
// REDEFINE: %{format} = q2_0_rocmfp2
// REDEFINE: %{prefix} = FP2
// RUN: %{asm}
// REDEFINE: %{format} = q4_0_rocmfp4_fast
// REDEFINE: %{prefix} = FP4
// RUN: %{asm}

// A chunk of FP2 is 4 loads of codes and one of scales, 128 bytes apart, of FP4
// 8 of codes and one of 8 scale bytes.
// FP2-DAG: global_load_b128 {{.*}} offset:128{{$}}
// FP2-DAG: global_load_b128 {{.*}} offset:256{{$}}
// FP2-DAG: global_load_b128 {{.*}} offset:384{{$}}
// FP4-DAG: global_load_b64
// FP4-DAG: global_load_b128 {{.*}} offset:128{{$}}
// FP4-DAG: global_load_b128 {{.*}} offset:384{{$}}
// FP4-DAG: global_load_b128 {{.*}} offset:640{{$}}
// FP4-DAG: global_load_b128 {{.*}} offset:896{{$}}
// ISA:     .private_segment_fixed_size: 0
// ISA:     .vgpr_spill_count: 0

// CHECK:      namespace body0 { // linear, q2_0_rocmfp2
// CHECK:      constexpr u32 kIn = 4096;
// CHECK-NEXT: constexpr u32 kOut = 96;
// CHECK-NEXT: constexpr u32 kRowBytes = 1280;
// CHECK-NEXT: constexpr u32 kInt8 = 1;
// CHECK-NEXT: constexpr u32 kLaneRows = 8;
// CHECK-NEXT: constexpr u32 kRowLanes = 8;
// CHECK-NEXT: constexpr u32 kStaged = 0;
// CHECK-NEXT: constexpr u32 kBookLevels = 0;
// CHECK-NEXT: constexpr u32 kColumns = 1;
// CHECK-NEXT: constexpr u32 kSegmentBlocks = 16;
// CHECK-NEXT: constexpr u32 kChunkBlocks = 8;
// CHECK-NEXT: constexpr u32 kSplit = 8;
// CHECK-NEXT: constexpr u32 kUnit0 = 16;
// CHECK-NEXT: constexpr u32 kUnit1 = 16;
// CHECK-NEXT: constexpr u32 kPlane1 = 1024;
// CHECK:      #include "weights/q2_0_rocmfp2.h"
// CHECK-NEXT: #include "layouts/lanes.h"
// CHECK-NEXT: #include "linear.hip"
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 96, ds4.context = 128} {
  func.func @decode(%tokens: tensor<1xi32>) -> (tensor<1x96xf32>, tensor<1xi32>) {
    %table = ds4.weight "token_embd.weight" : !ds4.weight<96x4096xf16>
    %w = ds4.weight "w" : !ds4.weight<96x4096xq2_0_rocmfp2>
    %head = ds4.weight "head" : !ds4.weight<96x4096xq4_0_rocmfp4_fast>
    %streams = ds4.embed %tokens, %table : (tensor<1xi32>, !ds4.weight<96x4096xf16>) -> tensor<1x1x4096xf32>
    %x = ds4.reshape %streams : (tensor<1x1x4096xf32>) -> tensor<1x4096xf32>
    %q = ds4.quantize %x : (tensor<1x4096xf32>) -> !ds4.q8<1x4096>
    %y = ds4.linear %q, %w : (!ds4.q8<1x4096>, !ds4.weight<96x4096xq2_0_rocmfp2>) -> tensor<1x96xf32>
    %logits = ds4.linear %q, %head {rows = #ds4.rows<outputs>} : (!ds4.q8<1x4096>, !ds4.weight<96x4096xq4_0_rocmfp4_fast>) -> tensor<1x96xf32>
    %argmax = ds4.argmax %logits : (tensor<1x96xf32>) -> tensor<1xi32>
    return %logits, %argmax : tensor<1x96xf32>, tensor<1xi32>
  }
}
