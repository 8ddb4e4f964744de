// RUN: ds4-opt %s --ds4-fuse-routing --ds4-fuse-experts | FileCheck %s

// The choice follows the router; each of the experts' two products takes along
// what lies behind it; the shared expert's last linear joins the second.
// CHECK-LABEL: func.func @experts(
// CHECK:         %[[R:.+]]:2 = ds4.launch "routing"
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.route
// CHECK:         %[[H:.+]] = ds4.launch "expert_gate_up"
// CHECK-NEXT:      ds4.expert_gate_up %{{.+}}, %[[R]]#0
// CHECK-NEXT:      ds4.swiglu
// CHECK-NEXT:      ds4.quantize
// CHECK:         ds4.launch "expert_down"
// CHECK-NEXT:      ds4.expert_down %[[H]], %[[R]]#0
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.combine %{{.+}}, %[[R]]#1, %{{.+}}
// CHECK-NEXT:      ds4.yield
func.func @experts(%x: tensor<1x64xf32>, %q: !ds4.q8<1x64>, %h: !ds4.q8<1x32>) -> tensor<1x64xf32> {
  %router = ds4.weight "router" : !ds4.weight<8x64xf32>
  %bias = ds4.weight "bias" : !ds4.weight<8xf32>
  %gate = ds4.weight "gate" : !ds4.weight<8x32x64xq8_0>
  %up = ds4.weight "up" : !ds4.weight<8x32x64xq8_0>
  %down = ds4.weight "down" : !ds4.weight<8x64x32xq8_0>
  %shared = ds4.weight "shared" : !ds4.weight<64x32xq8_0>
  %l = ds4.linear %x, %router : (tensor<1x64xf32>, !ds4.weight<8x64xf32>) -> tensor<1x8xf32>
  %e, %w = ds4.route %l, %bias scale 1.5 : (tensor<1x8xf32>, !ds4.weight<8xf32>) -> (tensor<1x2xi32>, tensor<1x2xf32>)
  %g, %u = ds4.expert_gate_up %q, %e, %gate, %up : (!ds4.q8<1x64>, tensor<1x2xi32>, !ds4.weight<8x32x64xq8_0>, !ds4.weight<8x32x64xq8_0>) -> (tensor<1x2x32xf32>, tensor<1x2x32xf32>)
  %a = ds4.swiglu %g, %u limit 3.0 : tensor<1x2x32xf32>
  %b = ds4.quantize %a : (tensor<1x2x32xf32>) -> !ds4.q8<1x2x32>
  %y = ds4.expert_down %b, %e, %down : (!ds4.q8<1x2x32>, tensor<1x2xi32>, !ds4.weight<8x64x32xq8_0>) -> tensor<1x2x64xf32>
  %s = ds4.linear %h, %shared : (!ds4.q8<1x32>, !ds4.weight<64x32xq8_0>) -> tensor<1x64xf32>
  %r = ds4.combine %y, %w, %s : (tensor<1x2x64xf32>, tensor<1x2xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  return %r : tensor<1x64xf32>
}

// Grouped by expert, a wave does a whole step: not with what does rows.
// CHECK-LABEL: func.func @grouped(
// CHECK:         %[[Y:.+]] = ds4.expert_down
// CHECK-NEXT:    %[[R:.+]] = ds4.launch "combine"
// CHECK-NEXT:      ds4.linear
// CHECK-NEXT:      ds4.combine %[[Y]]
func.func @grouped(%b: !ds4.q8<64x2x32>, %h: !ds4.q8<64x32>, %e: tensor<64x2xi32>, %p: tensor<64x2xi32>, %w: tensor<64x2xf32>) -> tensor<64x64xf32> {
  %down = ds4.weight "down" : !ds4.weight<8x64x32xq8_0>
  %shared = ds4.weight "shared" : !ds4.weight<64x32xq8_0>
  %y = ds4.expert_down %b, %e, %down pairs %p : (!ds4.q8<64x2x32>, tensor<64x2xi32>, !ds4.weight<8x64x32xq8_0>, tensor<64x2xi32>) -> tensor<64x2x64xf32>
  %s = ds4.linear %h, %shared : (!ds4.q8<64x32>, !ds4.weight<64x32xq8_0>) -> tensor<64x64xf32>
  %r = ds4.combine %y, %w, %s : (tensor<64x2x64xf32>, tensor<64x2xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  return %r : tensor<64x64xf32>
}
