// RUN: ds4c %s --from=fused --target=host --emit=plan | FileCheck %s

// An observation is complete once both the activations and the choice of
// experts are; a view has the buffer of its source. The buffers live until the
// op, so the launch that reads them may come later. Plans without observations
// do not have the list (plan.mlir).
// CHECK:      "label": "quantize",
// CHECK:      "args": ["[[X:arena:[0-9]+]]",
// CHECK:      "label": "hash_route",
// CHECK:      "args": ["{{.*}}", "tokens", "weight:table", "[[E:arena:[0-9]+]]",
// CHECK:      "observations": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "weight": "router",
// CHECK-NEXT:     "after_launch": 0,
// CHECK-NEXT:     "source": "[[X]]",
// CHECK-NEXT:     "row_elements": 128,
// CHECK-NEXT:     "width": 128,
// CHECK-NEXT:     "chosen": "null",
// CHECK-NEXT:     "used": 0,
// CHECK-NEXT:     "experts": 1,
// CHECK-NEXT:     "ratio": 1
// CHECK-NEXT:   },
// CHECK-NEXT:   {
// CHECK-NEXT:     "weight": "down",
// CHECK-NEXT:     "after_launch": 3,
// CHECK-NEXT:     "source": "[[X]]",
// CHECK-NEXT:     "row_elements": 128,
// CHECK-NEXT:     "width": 64,
// CHECK-NEXT:     "chosen": "[[E]]",
// CHECK-NEXT:     "used": 2,
// CHECK-NEXT:     "experts": 8,
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 96, ds4.context = 128, ds4.most_rollback = 4} {
  func.func @prefill(%tokens: tensor<4xi32>) -> (tensor<4x8xf32>, tensor<4xi32>) {
    %embedding = ds4.weight "token_embd.weight" : !ds4.weight<96x128xf16>
    %router = ds4.weight "router" : !ds4.weight<8x128xf32>
    %table = ds4.weight "table" : !ds4.weight<96x2xi32>
    %down = ds4.weight "down" : !ds4.weight<8x32x64xf16>
    %streams = ds4.embed %tokens, %embedding : (tensor<4xi32>, !ds4.weight<96x128xf16>) -> tensor<4x1x128xf32>
    %x = ds4.reshape %streams : (tensor<4x1x128xf32>) -> tensor<4x128xf32>
    %q = ds4.quantize %x : (tensor<4x128xf32>) -> !ds4.q8<4x128>
    ds4.observe %x, %router : tensor<4x128xf32>, !ds4.weight<8x128xf32>
    %scores = ds4.linear %x, %router : (tensor<4x128xf32>, !ds4.weight<8x128xf32>) -> tensor<4x8xf32>
    %e, %w = ds4.hash_route %scores, %tokens, %table scale 1.5 : (tensor<4x8xf32>, tensor<4xi32>, !ds4.weight<96x2xi32>) -> (tensor<4x2xi32>, tensor<4x2xf32>)
    %h = ds4.reshape %x : (tensor<4x128xf32>) -> tensor<4x2x64xf32>
    ds4.observe %h, %down experts %e : tensor<4x2x64xf32>, !ds4.weight<8x32x64xf16>, tensor<4x2xi32>
    %argmax = ds4.argmax %scores : (tensor<4x8xf32>) -> tensor<4xi32>
    return %scores, %argmax : tensor<4x8xf32>, tensor<4xi32>
  }
}
