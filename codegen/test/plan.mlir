// RUN: ds4c %s --from=fused --target=host --emit=plan | FileCheck %s

// One launch an op; a view launches nothing and its reader gets the source's
// offset; selections get the status slot of their own launch; the step is last.
// A weight that no kernel reads is not listed.
// CHECK:      "functions": [
// CHECK-NEXT:   {
// CHECK-NEXT:     "name": "prefill",
// CHECK-NEXT:     "capacity": 8,
// CHECK-NEXT:     "outputs": 2,
// CHECK-NEXT:     "arena_bytes": {{[0-9]+}},
// CHECK-NEXT:     "tickets": 0,
// CHECK-NEXT:     "logits": "[[LOGITS:arena:[0-9]+]]",
// CHECK-NEXT:     "argmax": "[[ARGMAX:arena:[0-9]+]]",
// CHECK-NEXT:     "launches": [
// CHECK-NEXT:       {
// CHECK-NEXT:         "kernel": "embed_{{[0-9a-f]+}}",
// CHECK-NEXT:         "label": "embed",
// CHECK-NEXT:         "layer": -1,
// CHECK-NEXT:         "grid": [{{[0-9]+}}, 8],
// CHECK-NEXT:         "block": {{[0-9]+}},
// CHECK-NEXT:         "ratio": 1,
// CHECK-NEXT:         "args": ["tokens", "weight:token_embd.weight", "[[X:arena:[0-9]+]]", "step"],
// CHECK:              "label": "rms_norm",
// CHECK-NEXT:         "layer": 3,
// CHECK:              "args": ["[[X]]", "{{arena:[0-9]+}}", "step"],
// CHECK:              "label": "take_outputs",
// CHECK:              "label": "linear",
// CHECK:              "grid": [{{[0-9]+}}, 2],
// CHECK:              "ratio": 0,
// CHECK:              "args": ["{{.+}}", "weight:output.weight", "[[LOGITS]]", "step"],
// CHECK-NEXT:         "weight_bytes_per_token": 6528,
// CHECK:              "label": "argmax",
// CHECK:              "args": ["[[LOGITS]]", "[[ARGMAX]]", "status:32", "step"],
// CHECK:          "traces": [
// CHECK-NEXT:       {
// CHECK-NEXT:         "name": "layer3.x",
// CHECK-NEXT:         "after_launch": 0,
// CHECK-NEXT:         "source": "[[X]]",
// CHECK-NEXT:         "row_elements": 64,
// CHECK-NEXT:         "ratio": 1
// CHECK:      "weights": [
// CHECK-NOT:    unused
// CHECK:        "name": "output.weight",
// CHECK-NEXT:   "format": "q8_0",
// CHECK-NEXT:   "shape": [96, 64],
// CHECK-NEXT:   "bytes": 6528,
// CHECK-NEXT:   "value_limit": 0,
// CHECK-NEXT:   "slices_per_token": 96,
// CHECK-NEXT:   "layout": "file"
// CHECK-NOT:    unused
module attributes {ds4.model_name = "m", ds4.fingerprint = "f", ds4.profile = {}, ds4.layers = 1, ds4.vocab = 96, ds4.context = 128, ds4.most_rollback = 4} {
  func.func @prefill(%tokens: tensor<8xi32>) -> (tensor<2x96xf32>, tensor<2xi32>) {
    %unused = ds4.weight "unused" : !ds4.weight<96x64xf16>
    %table = ds4.weight "token_embd.weight" : !ds4.weight<96x64xf16>
    %head = ds4.weight "output.weight" : !ds4.weight<96x64xq8_0>
    %streams = ds4.embed %tokens, %table : (tensor<8xi32>, !ds4.weight<96x64xf16>) -> tensor<8x1x64xf32>
    %x = ds4.reshape %streams : (tensor<8x1x64xf32>) -> tensor<8x64xf32>
    %y = ds4.rms_norm %x eps 1.0e-6 {ds4.layer = 3 : i32} : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ds4.trace "layer3.x", %x : tensor<8x64xf32>
    %last = ds4.take_outputs %y : (tensor<8x64xf32>) -> tensor<2x64xf32>
    %logits = ds4.linear %last, %head {rows = #ds4.rows<outputs>} : (tensor<2x64xf32>, !ds4.weight<96x64xq8_0>) -> tensor<2x96xf32>
    %argmax = ds4.argmax %logits : (tensor<2x96xf32>) -> tensor<2xi32>
    return %logits, %argmax : tensor<2x96xf32>, tensor<2xi32>
  }
}
