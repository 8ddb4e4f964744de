// RUN: ds4-opt %s --ds4-plan-memory | FileCheck %s

// What a launch makes inside has a place of its own while the launch runs: none
// of the three may share, though %a is dead when %b is made.
// CHECK-LABEL: func @places
// CHECK-SAME:    ds4.arena_bytes = 768
func.func @places(%tokens: tensor<1xi32>, %x: tensor<1x64xf32>) -> tensor<1x64xf32> {
  %r = ds4.launch "norms" : tensor<1x64xf32> {
    %a = ds4.hadamard %x : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %b = ds4.hadamard %a : (tensor<1x64xf32>) -> tensor<1x64xf32>
    %c = ds4.hadamard %b : (tensor<1x64xf32>) -> tensor<1x64xf32>
    ds4.yield %c : tensor<1x64xf32>
  }
  return %r : tensor<1x64xf32>
}
