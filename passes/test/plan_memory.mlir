// RUN: ds4-opt %s --ds4-plan-memory --split-input-file | FileCheck %s
// RUN: ds4-opt %s --ds4-plan-memory=explain --split-input-file 2>&1 | FileCheck %s --check-prefix=EXPLAIN

// A reader never shares bytes with its operand, and what is dead makes room:
// %a and %c alternate. 256 f32 are 1024 bytes.
// CHECK-LABEL: func.func @chain(
//  CHECK-SAME:   attributes {ds4.arena_bytes = 2048 : i64}
//       CHECK:   ds4.hadamard %{{.+}} {ds4.offsets = array<i64: 0>}
//  CHECK-NEXT:   ds4.hadamard %{{.+}} {ds4.offsets = array<i64: 1024>}
//  CHECK-NEXT:   ds4.hadamard %{{.+}} {ds4.offsets = array<i64: 0>}
//  CHECK-NEXT:   ds4.hadamard %{{.+}} {ds4.offsets = array<i64: 1024>}
// EXPLAIN: remark: arena of 2048 bytes for 4 activations of 4096 bytes
func.func @chain(%x: tensor<1x256xf32>) -> tensor<1x256xf32> {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %a : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %b : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %d = ds4.hadamard %c : (tensor<1x256xf32>) -> tensor<1x256xf32>
  return %d : tensor<1x256xf32>
}

// -----

// What is returned stays until the end although nobody reads it: nothing may
// take its place.
// CHECK-LABEL: func.func @returned_early(
//  CHECK-SAME:   ds4.arena_bytes = 3072
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: [[KEPT:[0-9]+]]>}
//   CHECK-NOT:   array<i64: [[KEPT]]>
//       CHECK:   return
func.func @returned_early(%x: tensor<1x256xf32>) -> (tensor<1x256xf32>, tensor<1x256xf32>) {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %b : (tensor<1x256xf32>) -> tensor<1x256xf32>
  return %a, %c : tensor<1x256xf32>, tensor<1x256xf32>
}

// -----

// A view has no bytes of its own and keeps its source alive.
// CHECK-LABEL: func.func @view_keeps_source(
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: [[SOURCE:[0-9]+]]>}
//  CHECK-NEXT:   ds4.reshape %{{[0-9]+}} :
//   CHECK-NOT:   array<i64: [[SOURCE]]>
//       CHECK:   ds4.rms_norm
//  CHECK-SAME:   ds4.offsets
func.func @view_keeps_source(%x: tensor<1x256xf32>) -> (tensor<1x256xf32>, tensor<1x2x128xf32>) {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %view = ds4.reshape %a : (tensor<1x256xf32>) -> tensor<1x2x128xf32>
  %b = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %b : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %d = ds4.rms_norm %view eps 1.0e-6 : (tensor<1x2x128xf32>) -> tensor<1x2x128xf32>
  return %c, %d : tensor<1x256xf32>, tensor<1x2x128xf32>
}

// -----

// Int8 rows are codes and scales (64 + 2 * 4 bytes), rounded up to 256. Results
// of one op have a place each; leaves have none.
// CHECK-LABEL: func.func @sizes(
//  CHECK-SAME:   ds4.arena_bytes = 768
//       CHECK:   ds4.quantize %{{.+}} {ds4.offsets = array<i64: 0>}
//  CHECK-NEXT:   ds4.weight "gate" :
//  CHECK-NEXT:   ds4.expert_gate_up {{.*}} {ds4.offsets = array<i64: 256, 512>}
func.func @sizes(%x: tensor<1x64xf32>, %experts: tensor<1x2xi32>) -> (tensor<1x2x32xf32>, tensor<1x2x32xf32>) {
  %q = ds4.quantize %x : (tensor<1x64xf32>) -> !ds4.q8<1x64>
  %gate = ds4.weight "gate" : !ds4.weight<4x32x64xq8_0>
  %g, %u = ds4.expert_gate_up %q, %experts, %gate, %gate : (!ds4.q8<1x64>, tensor<1x2xi32>, !ds4.weight<4x32x64xq8_0>, !ds4.weight<4x32x64xq8_0>) -> (tensor<1x2x32xf32>, tensor<1x2x32xf32>)
  return %g, %u : tensor<1x2x32xf32>, tensor<1x2x32xf32>
}

// -----

// A trace does not lengthen a life: the copy happens right after the launch.
// CHECK-LABEL: func.func @traced(
//  CHECK-SAME:   ds4.arena_bytes = 2048
func.func @traced(%x: tensor<1x256xf32>) -> tensor<1x256xf32> {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %a : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %b : (tensor<1x256xf32>) -> tensor<1x256xf32>
  ds4.trace "a", %a : tensor<1x256xf32>
  return %c : tensor<1x256xf32>
}

// -----

// What is observed lives until there: what it waits for may come later.
// CHECK-LABEL: func.func @observed(
//  CHECK-SAME:   ds4.arena_bytes = 3072
func.func @observed(%x: tensor<1x256xf32>) -> tensor<1x256xf32> {
  %w = ds4.weight "w" : !ds4.weight<8x256xf32>
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %a : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %b : (tensor<1x256xf32>) -> tensor<1x256xf32>
  ds4.observe %a, %w : tensor<1x256xf32>, !ds4.weight<8x256xf32>
  return %c : tensor<1x256xf32>
}

// -----

// Elementwise ops and norms write where they read, through views and inside a
// launch, too.
// CHECK-LABEL: func.func @in_place(
//  CHECK-SAME:   ds4.arena_bytes = 2048
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: [[A:[0-9]+]]>}
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: {{[0-9]+}}>}
//       CHECK:   ds4.rms_norm {{.*}} {ds4.offsets = array<i64: [[A]]>}
//       CHECK:   ds4.swiglu {{.*}} {ds4.offsets = array<i64: [[A]]>}
func.func @in_place(%x: tensor<1x256xf32>) -> tensor<1x256xf32> {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %view = ds4.reshape %a : (tensor<1x256xf32>) -> tensor<1x2x128xf32>
  %r = ds4.launch "in_place" : tensor<1x256xf32> {
    %n = ds4.rms_norm %view eps 1.0e-6 : (tensor<1x2x128xf32>) -> tensor<1x2x128xf32>
    %flat = ds4.reshape %n : (tensor<1x2x128xf32>) -> tensor<1x256xf32>
    %s = ds4.swiglu %flat, %b limit 3.0 : tensor<1x256xf32>
    ds4.yield %s : tensor<1x256xf32>
  }
  return %r : tensor<1x256xf32>
}

// -----

// Not what another op of the launch reads, what is returned later or what is
// traced: %a, %b and %c are at 0, 1024 and 2048; the norm of %b takes the place
// of %a, which is dead by then.
// CHECK-LABEL: func.func @not_in_place(
//  CHECK-SAME:   ds4.arena_bytes = 6144
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: 0>}
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: 1024>}
//       CHECK:   ds4.hadamard %arg0 {ds4.offsets = array<i64: 2048>}
//       CHECK:   ds4.rms_norm {{.*}} {ds4.offsets = array<i64: 3072>}
//       CHECK:   ds4.hadamard {{.*}} {ds4.offsets = array<i64: 4096>}
//       CHECK:   ds4.rms_norm {{.*}} {ds4.offsets = array<i64: 0>}
//       CHECK:   ds4.rms_norm {{.*}} {ds4.offsets = array<i64: 5120>}
func.func @not_in_place(%x: tensor<1x256xf32>) -> (tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>) {
  %a = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %b = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %c = ds4.hadamard %x : (tensor<1x256xf32>) -> tensor<1x256xf32>
  %r:2 = ds4.launch "reads_twice" : tensor<1x256xf32>, tensor<1x256xf32> {
    %n = ds4.rms_norm %a eps 1.0e-6 : (tensor<1x256xf32>) -> tensor<1x256xf32>
    %h = ds4.hadamard %a : (tensor<1x256xf32>) -> tensor<1x256xf32>
    ds4.yield %n, %h : tensor<1x256xf32>, tensor<1x256xf32>
  }
  %m = ds4.rms_norm %b eps 1.0e-6 : (tensor<1x256xf32>) -> tensor<1x256xf32>
  ds4.trace "c", %c : tensor<1x256xf32>
  %o = ds4.rms_norm %c eps 1.0e-6 : (tensor<1x256xf32>) -> tensor<1x256xf32>
  return %r#0, %r#1, %m, %b, %o : tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>, tensor<1x256xf32>
}
