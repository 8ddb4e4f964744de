// RUN: ds4-opt %s --ds4-fuse --ds4-plan | FileCheck %s

// Equal leaves and equal pure ops become one; trace points survive although
// nobody uses them.
// CHECK-LABEL: func.func @decode(
//       CHECK:   ds4.weight "w"
//   CHECK-NOT:   ds4.weight
//       CHECK:   ds4.rms_norm
//   CHECK-NOT:   ds4.rms_norm
//       CHECK:   ds4.trace "a"
//  CHECK-NEXT:   ds4.trace "b"
func.func @decode(%x: tensor<1x256xf32>) -> (tensor<1x256xf32>, tensor<1x256xf32>) {
  %w0 = ds4.weight "w" : !ds4.weight<256xf32>
  %w1 = ds4.weight "w" : !ds4.weight<256xf32>
  %a = ds4.rms_norm %x, %w0 eps 1.0e-6 : (tensor<1x256xf32>, !ds4.weight<256xf32>) -> tensor<1x256xf32>
  %b = ds4.rms_norm %x, %w1 eps 1.0e-6 : (tensor<1x256xf32>, !ds4.weight<256xf32>) -> tensor<1x256xf32>
  ds4.trace "a", %a : tensor<1x256xf32>
  ds4.trace "b", %b : tensor<1x256xf32>
  return %a, %b : tensor<1x256xf32>, tensor<1x256xf32>
}
