// RUN: sed s/TARGET/gfx1151/ %s > %t.gfx1151.mlir
// RUN: ds4c %t.gfx1151.mlir --from=fused --target=gfx1151 --emit=hip -o %t.gfx1151.hip
// RUN: sed s/TARGET/sm_90/ %s > %t.sm_90.mlir
// RUN: ds4c %t.sm_90.mlir --from=fused --target=sm_90 --emit=hip -o %t.sm_90.hip

// Products of long steps are matrix instructions: on gfx1151 two WMMA of int8 a
// block of 32 columns and 16 rows, without spills, a block at a time; on sm_90 a
// wgmma of binary16 for every 32 rows and 16 columns, of two blocks: the second
// half of a block adds to the first one's products if they share a scale.
// DEFINE: %{format} =
// DEFINE: %{prefix} =
// DEFINE: %{unit} = awk -v RS="// unit " '/linear_tile, %{format}\n/{print RS $0}'
// DEFINE: %{flags} = --cuda-device-only -O3 -std=c++20 -ffp-contract=off -I %source/ops -S -o -
// DEFINE: %{amd} = %{unit} %t.gfx1151.hip > %t.amd.hip && \
// DEFINE:   clang++ -x hip --offload-arch=gfx1151 -nogpuinc -nogpulib %{flags} %t.amd.hip | \
// DEFINE:   FileCheck %s --check-prefix=WMMA
// DEFINE: %{nvidia} = %{unit} %t.sm_90.hip > %t.nvidia.hip && \
// DEFINE:   clang++ -x cuda --cuda-gpu-arch=sm_90 -nocudainc -nocudalib -Wno-unknown-cuda-version \
// DEFINE:     %{flags} %t.nvidia.hip | FileCheck %s --check-prefix=%{prefix}
// REDEFINE: %{format} = q4_0_rocmfp4_fast
// REDEFINE: %{prefix} = WHOLE
// RUN: %{amd}
// RUN: %{nvidia}
// REDEFINE: %{format} = q2_0_rocmfp2
// REDEFINE: %{prefix} = HALVES
// RUN: %{amd}
// RUN: %{nvidia}

// WMMA-COUNT-8: v_wmma_i32_16x16x16_iu8 {{.*}} neg_lo:[1,1,0]
// WMMA-NOT:      v_wmma
// WMMA:          .private_segment_fixed_size: 0
// WMMA:          .vgpr_spill_count: 0

// WHOLE-COUNT-8: wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16
// WHOLE-NOT:     wgmma.mma_async

// HALVES-COUNT-8: wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16
// HALVES-NOT:     wgmma.mma_async

module attributes {ds4.profile = {target = "TARGET"}} {
func.func @prefill(%x: !ds4.q8<16x4096>) -> (tensor<16x96xf32>, tensor<16x96xf32>) {
  %v = ds4.weight "v" : !ds4.weight<96x4096xq4_0_rocmfp4_fast>
  %w = ds4.weight "w" : !ds4.weight<96x4096xq2_0_rocmfp2>
  %0 = ds4.linear %x, %v {ds4.columns = 64 : i32} : (!ds4.q8<16x4096>, !ds4.weight<96x4096xq4_0_rocmfp4_fast>) -> tensor<16x96xf32>
  %1 = ds4.linear %x, %w {ds4.columns = 64 : i32} : (!ds4.q8<16x4096>, !ds4.weight<96x4096xq2_0_rocmfp2>) -> tensor<16x96xf32>
  return %0, %1 : tensor<16x96xf32>, tensor<16x96xf32>
}
}
