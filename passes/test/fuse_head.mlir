// RUN: ds4-opt %s --ds4-fuse-head --split-input-file | FileCheck %s
// RUN: ds4-opt %s --ds4-fuse-head=explain --split-input-file --verify-diagnostics -o /dev/null

// Both results leave the launch.
// CHECK-LABEL: func.func @head(
// CHECK:         %[[R:.+]]:2 = ds4.launch "head"
// CHECK-NEXT:      %[[L:.+]] = ds4.linear
// CHECK-NEXT:      %[[A:.+]] = ds4.argmax %[[L]]
// CHECK-NEXT:      ds4.yield %[[L]], %[[A]]
// CHECK:         return %[[R]]#0, %[[R]]#1
func.func @head(%x: tensor<1x64xf32>) -> (tensor<1x96xf32>, tensor<1xi32>) {
  %w = ds4.weight "w" : !ds4.weight<96x64xf16>
  %l = ds4.linear %x, %w {rows = #ds4.rows<outputs>} : (tensor<1x64xf32>, !ds4.weight<96x64xf16>) -> tensor<1x96xf32>
  %a = ds4.argmax %l : (tensor<1x96xf32>) -> tensor<1xi32>
  return %l, %a : tensor<1x96xf32>, tensor<1xi32>
}

// -----
// A linear of tokens has other rows than the choice among outputs.
// CHECK-LABEL: func.func @other_rows(
// CHECK-NOT:     ds4.launch
func.func @other_rows(%x: tensor<8x64xf32>) -> tensor<8xi32> {
  %w = ds4.weight "w" : !ds4.weight<96x64xf16>
  // expected-remark @+1 {{not fused: argmax has other rows than linear, which it reads}}
  %l = ds4.linear %x, %w : (tensor<8x64xf32>, !ds4.weight<96x64xf16>) -> tensor<8x96xf32>
  %a = ds4.argmax %l : (tensor<8x96xf32>) -> tensor<8xi32>
  return %a : tensor<8xi32>
}
