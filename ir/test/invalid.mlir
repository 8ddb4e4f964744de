// RUN: ds4-opt %s --split-input-file --verify-diagnostics
// One case a constraint; the function's name is the label in Ds4Ops.cpp.

// expected-error @+1 {{row length 100 is not a multiple of 32, which q8_0 needs}}
func.func private @weight_c2(!ds4.weight<8x100xq8_0>)

// -----

// expected-error @+1 {{a row of 128 elements of q8_0 has no 8 segments of whole blocks, which layout lanes needs}}
func.func private @weight_c3(!ds4.weight<8x128xq8_0, lanes>)

// -----

// expected-error @+1 {{a row of 4096 elements of f16 has no 8 segments}}
func.func private @weight_c3_float(!ds4.weight<8x4096xf16, lanes>)

// -----

// expected-error @+1 {{unknown weight layout 'tiles' (file, lanes)}}
func.func private @weight_layout(!ds4.weight<8x256xq8_0, tiles>)

// -----

// expected-error @+1 {{unknown weight format 'q9_9'}}
func.func private @weight_format(!ds4.weight<8x128xq9_9>)

// -----

// expected-error @+1 {{last dimension 40 is not a multiple of 32}}
func.func private @q8_c2(!ds4.q8<1x40>)

// -----

// expected-error @+1 {{fp8 rows need 64 values and a multiple of 64 more, not 96}}
func.func private @state_c2(!ds4.state<64x96xfp8>)

// -----

func.func @reshape_c1(%x: tensor<2x8xf32>) {
  // expected-error @+1 {{cannot view [2, 8] as [2, 3, 4]}}
  %0 = ds4.reshape %x : (tensor<2x8xf32>) -> tensor<2x3x4xf32>
  return
}

// -----

func.func @embed_c1(%t: tensor<1xi32>, %w: !ds4.weight<100x128xf16>) {
  // expected-error @+1 {{hidden size differs: the table has 128, the result 64}}
  %0 = ds4.embed %t, %w : (tensor<1xi32>, !ds4.weight<100x128xf16>) -> tensor<1x4x64xf32>
  return
}

// -----

func.func @hc_pre_c1(%x: tensor<1x4x64xf32>, %fn: !ds4.weight<24x128xf32>, %s: !ds4.weight<3xf32>, %b: !ds4.weight<24xf32>) {
  // expected-error @+1 {{fn is [24, 128], expected [24, 256]}}
  %0:3 = ds4.hc_pre %x, %fn, %s, %b eps 1.0e-6, 1.0e-6 iterations 20 : (tensor<1x4x64xf32>, !ds4.weight<24x128xf32>, !ds4.weight<3xf32>, !ds4.weight<24xf32>) -> (tensor<1x64xf32>, tensor<1x4xf32>, tensor<1x4x4xf32>)
  return
}

// -----

func.func @hc_post_c2(%y: tensor<1x64xf32>, %x: tensor<1x4x64xf32>, %p: tensor<1x3xf32>, %c: tensor<1x4x4xf32>) {
  // expected-error @+1 {{post is [1, 3], expected [1, 4]}}
  %0 = ds4.hc_post %y, %x, %p, %c : (tensor<1x64xf32>, tensor<1x4x64xf32>, tensor<1x3xf32>, tensor<1x4x4xf32>) -> tensor<1x4x64xf32>
  return
}

// -----

func.func @rms_norm_c2(%x: tensor<1x64xf32>, %w: !ds4.weight<64xf16>) {
  // expected-error @+1 {{weight is stored as f16, expected f32}}
  %0 = ds4.rms_norm %x, %w eps 1.0e-6 : (tensor<1x64xf32>, !ds4.weight<64xf16>) -> tensor<1x64xf32>
  return
}

// -----

func.func @observe_c1(%x: tensor<1x64xf32>, %w: !ds4.weight<32x128xf16>) {
  // expected-error @+1 {{a row of 64 activations is no multiple of the weight's 128}}
  ds4.observe %x, %w : tensor<1x64xf32>, !ds4.weight<32x128xf16>
  return
}

// -----

func.func @observe_c2(%x: tensor<1x128xf32>, %w: !ds4.weight<8x32x128xf16>) {
  // expected-error @+1 {{a weight of 3 dimensions needs experts}}
  ds4.observe %x, %w : tensor<1x128xf32>, !ds4.weight<8x32x128xf16>
  return
}

// -----

func.func @observe_c3(%x: tensor<1x2x128xf32>, %w: !ds4.weight<8x32x128xf16>, %e: tensor<1x3xi32>) {
  // expected-error @+1 {{x is [1, 2, 128], expected [1, 3, 128]}}
  ds4.observe %x, %w experts %e : tensor<1x2x128xf32>, !ds4.weight<8x32x128xf16>, tensor<1x3xi32>
  return
}

// -----

func.func @linear_c1(%x: tensor<1x64xf32>, %w: !ds4.weight<32x128xf16>) {
  // expected-error @+1 {{input width differs: the activations have 64, the weight 128}}
  %0 = ds4.linear %x, %w : (tensor<1x64xf32>, !ds4.weight<32x128xf16>) -> tensor<1x32xf32>
  return
}

// -----

func.func @rotate_c1(%x: tensor<1x3x64xf32>, %e: tensor<1x2xi32>, %r: tensor<8xi32>) {
  // expected-error @+1 {{the experts is [1, 2], expected [1, 3]}}
  %0 = ds4.rotate %x experts %e, %r : (tensor<1x3x64xf32>, tensor<1x2xi32>, tensor<8xi32>) -> tensor<1x3x64xf32>
  return
}

// -----

func.func @rotate_c2(%x: tensor<1x3x40xf32>, %e: tensor<1x3xi32>, %r: tensor<8xi32>) {
  // expected-error @+1 {{vectors of 40 values are no multiple of 32}}
  %0 = ds4.rotate %x experts %e, %r : (tensor<1x3x40xf32>, tensor<1x3xi32>, tensor<8xi32>) -> tensor<1x3x40xf32>
  return
}

// -----

func.func @quantize_c2(%x: tensor<1x64xf32>, %e: tensor<1x3xi32>, %r: tensor<8xi32>) {
  // expected-error @+1 {{x has 2 dimensions, expected 3}}
  %0 = ds4.quantize %x experts %e, %r : (tensor<1x64xf32>, tensor<1x3xi32>, tensor<8xi32>) -> !ds4.q8<1x64>
  return
}

// -----

func.func @linear_c5(%x: tensor<1x128xf32>, %w: !ds4.weight<32x128xq2_1_rocmfp2_mix>) {
  // expected-error @+1 {{needs its codebooks}}
  %0 = ds4.linear %x, %w : (tensor<1x128xf32>, !ds4.weight<32x128xq2_1_rocmfp2_mix>) -> tensor<1x32xf32>
  return
}

// -----

func.func @linear_c5_shape(%x: tensor<1x128xf32>, %w: !ds4.weight<32x128xq2_1_rocmfp2_mix>, %b: tensor<2x2x4xf32>) {
  // expected-error @+1 {{a codebook table is [2, 2, 4], expected [1, 2, 4]}}
  %0 = ds4.linear %x, %w books %b : (tensor<1x128xf32>, !ds4.weight<32x128xq2_1_rocmfp2_mix>, tensor<2x2x4xf32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @grouped_linear_c5(%x: tensor<1x2x128xf32>, %w: !ds4.weight<32x128xf16>, %b: tensor<1x2x4xf32>) {
  // expected-error @+1 {{takes no codebooks}}
  %0 = ds4.grouped_linear %x, %w books %b : (tensor<1x2x128xf32>, !ds4.weight<32x128xf16>, tensor<1x2x4xf32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @linear_c3(%x: !ds4.q8<1x128>, %w: !ds4.weight<32x128xf16>) {
  // expected-error @+1 {{int8 activations need a block-quantised weight, not}}
  %0 = ds4.linear %x, %w : (!ds4.q8<1x128>, !ds4.weight<32x128xf16>) -> tensor<1x32xf32>
  return
}

// -----

func.func @linear_c4(%x: tensor<1x128xf32>, %w: !ds4.weight<32x128xi32>) {
  // expected-error @+1 {{an i32 table is not a matrix}}
  %0 = ds4.linear %x, %w : (tensor<1x128xf32>, !ds4.weight<32x128xi32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @grouped_linear_c2(%x: tensor<1x3x128xf32>, %w: !ds4.weight<32x128xf16>) {
  // expected-error @+1 {{the weight's 32 rows are not a multiple of 3 groups}}
  %0 = ds4.grouped_linear %x, %w : (tensor<1x3x128xf32>, !ds4.weight<32x128xf16>) -> tensor<1x32xf32>
  return
}

// -----

func.func @rope_c2(%x: tensor<1x32xf32>, %t: tensor<512x64xf32>) {
  // expected-error @+1 {{rotates 64 dimensions of 32}}
  %0 = ds4.rope %x, %t : (tensor<1x32xf32>, tensor<512x64xf32>) -> tensor<1x32xf32>
  return
}

// -----

func.func @hadamard_c2(%x: tensor<1x96xf32>) {
  // expected-error @+1 {{width 96 is not a power of two}}
  %0 = ds4.hadamard %x : (tensor<1x96xf32>) -> tensor<1x96xf32>
  return
}

// -----

func.func @simulate_c2(%x: tensor<1x128xf32>) {
  // expected-error @+1 {{width 96 is not a positive multiple of the block of 64}}
  %0 = ds4.simulate %x fp8 width 96 : (tensor<1x128xf32>) -> tensor<1x128xf32>
  return
}

// -----

func.func @append_c1(%x: tensor<1x128xf32>, %s: !ds4.state<64x256xf16>) {
  // expected-error @+1 {{row width differs: x has 128, the state 256}}
  ds4.append %x, %s : tensor<1x128xf32>, !ds4.state<64x256xf16>
  return
}

// -----

func.func @append_c2(%x: tensor<1x128xf32>) {
  %s = ds4.state "rows" {rows = #ds4.rows<windows 4>} : !ds4.state<64x128xf16>
  // expected-error @+1 {{row domain differs: the op has #ds4.rows<tokens>, the state #ds4.rows<windows 4>}}
  ds4.append %x, %s : tensor<1x128xf32>, !ds4.state<64x128xf16>
  return
}

// -----

func.func @state_c1() {
  // expected-error @+1 {{has rows of outputs, which are not kept}}
  %s = ds4.state "rows" {rows = #ds4.rows<outputs>} : !ds4.state<64x128xf16>
  return
}

// -----

func.func @compress_c2(%k: tensor<1x256xf32>, %r: !ds4.state<4x256xf32>) {
  // expected-error @+1 {{a ring of 4 rows cannot hold the 7 earlier tokens of a window}}
  %0 = ds4.compress %k, %k, %r, %r ratio 4 overlap : (tensor<1x256xf32>, tensor<1x256xf32>, !ds4.state<4x256xf32>, !ds4.state<4x256xf32>) -> tensor<1x128xf32>
  return
}

// -----

func.func @compress_c3(%k: tensor<9x256xf32>, %r: !ds4.state<16x256xf32>) {
  // expected-error @+1 {{the result is [2, 128], expected [3, 128]}}
  %0 = ds4.compress %k, %k, %r, %r ratio 4 overlap : (tensor<9x256xf32>, tensor<9x256xf32>, !ds4.state<16x256xf32>, !ds4.state<16x256xf32>) -> tensor<2x128xf32>
  return
}

// -----

func.func @index_score_c1(%q: tensor<1x16x128xf32>, %u: tensor<1x16xf32>, %k: !ds4.state<64x64xf16>) {
  // expected-error @+1 {{key width differs: q has 128, the keys 64}}
  %0 = ds4.index_score %q, %u, %k scale 1.0 ratio 4 top_k 16 : (tensor<1x16x128xf32>, tensor<1x16xf32>, !ds4.state<64x64xf16>) -> tensor<1x64xf32>
  return
}

// -----

func.func @top_k_c1(%s: tensor<1x64xf32>) {
  // expected-error @+1 {{the result is [1, 8], expected [1, 16]}}
  %0 = ds4.top_k %s k 16 ratio 4 : (tensor<1x64xf32>) -> tensor<1x8xi32>
  return
}

// -----

func.func @attend_c2(%q: tensor<1x8x128xf32>, %kv: tensor<1x128xf32>, %r: !ds4.state<16x128xf16>, %s: !ds4.weight<8xf32>) {
  // expected-error @+1 {{expected at least 31 rows of 128}}
  %0 = ds4.attend %q, %kv, %r, %s window 32 ratio 0 scale 0.1 : (tensor<1x8x128xf32>, tensor<1x128xf32>, !ds4.state<16x128xf16>, !ds4.weight<8xf32>) -> tensor<1x8x128xf32>
  return
}

// -----

func.func @attend_c4(%q: tensor<1x8x128xf32>, %kv: tensor<1x128xf32>, %r: !ds4.state<64x128xf16>, %s: !ds4.weight<8xf32>) {
  // expected-error @+1 {{compressed rows and a positive ratio come together}}
  %0 = ds4.attend %q, %kv, %r, %s window 32 ratio 4 scale 0.1 : (tensor<1x8x128xf32>, tensor<1x128xf32>, !ds4.state<64x128xf16>, !ds4.weight<8xf32>) -> tensor<1x8x128xf32>
  return
}

// -----

func.func @route_c2(%l: tensor<1x4xf32>, %b: !ds4.weight<4xf32>) {
  // expected-error @+1 {{chooses 6 experts of 4}}
  %0:2 = ds4.route %l, %b scale 1.5 : (tensor<1x4xf32>, !ds4.weight<4xf32>) -> (tensor<1x6xi32>, tensor<1x6xf32>)
  return
}

// -----

func.func @hash_route_c1(%l: tensor<1x8xf32>, %t: tensor<1xi32>, %w: !ds4.weight<100x3xf32>) {
  // expected-error @+1 {{the table is stored as f32, expected i32}}
  %0:2 = ds4.hash_route %l, %t, %w scale 1.5 : (tensor<1x8xf32>, tensor<1xi32>, !ds4.weight<100x3xf32>) -> (tensor<1x3xi32>, tensor<1x3xf32>)
  return
}

// -----

func.func @group_pairs_c1(%e: tensor<4x3xi32>) {
  // expected-error @+1 {{the result is [4, 2], expected [4, 3]}}
  %0 = ds4.group_pairs %e of 8 : (tensor<4x3xi32>) -> tensor<4x2xi32>
  return
}

// -----

func.func @group_pairs_c2(%e: tensor<4x3xi32>) {
  // expected-error @+1 {{has no experts to group by}}
  %0 = ds4.group_pairs %e of 0 : (tensor<4x3xi32>) -> tensor<4x3xi32>
  return
}

// -----

func.func @expert_gate_up_c4(%x: tensor<1x128xf32>, %e: tensor<1x3xi32>, %g: !ds4.weight<8x32x128xf16>, %p: tensor<1x2xi32>) {
  // expected-error @+1 {{pairs are 'tensor<1x2xi32>', the experts are 'tensor<1x3xi32>'}}
  %0:2 = ds4.expert_gate_up %x, %e, %g, %g pairs %p : (tensor<1x128xf32>, tensor<1x3xi32>, !ds4.weight<8x32x128xf16>, !ds4.weight<8x32x128xf16>, tensor<1x2xi32>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  return
}

// -----

func.func @expert_down_c4(%h: tensor<1x3x128xf32>, %e: tensor<1x3xi32>, %w: !ds4.weight<8x64x128xf16>, %p: tensor<1x2xi32>) {
  // expected-error @+1 {{pairs are 'tensor<1x2xi32>', the experts are 'tensor<1x3xi32>'}}
  %0 = ds4.expert_down %h, %e, %w pairs %p : (tensor<1x3x128xf32>, tensor<1x3xi32>, !ds4.weight<8x64x128xf16>, tensor<1x2xi32>) -> tensor<1x3x64xf32>
  return
}

// -----

func.func @expert_gate_up_c1(%x: tensor<1x128xf32>, %e: tensor<1x3xi32>, %g: !ds4.weight<8x32x128xf16>, %u: !ds4.weight<8x32x128xf32>) {
  // expected-error @+1 {{gate is '!ds4.weight<8x32x128xf16>', up is '!ds4.weight<8x32x128xf32>'}}
  %0:2 = ds4.expert_gate_up %x, %e, %g, %u : (tensor<1x128xf32>, tensor<1x3xi32>, !ds4.weight<8x32x128xf16>, !ds4.weight<8x32x128xf32>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  return
}

// -----

func.func @expert_gate_up_c3(%x: tensor<1x128xf32>, %e: tensor<1x3xi32>, %g: !ds4.weight<8x32x128xq2_1_rocmfp2_mix>) {
  // expected-error @+1 {{needs its codebooks}}
  %0:2 = ds4.expert_gate_up %x, %e, %g, %g : (tensor<1x128xf32>, tensor<1x3xi32>, !ds4.weight<8x32x128xq2_1_rocmfp2_mix>, !ds4.weight<8x32x128xq2_1_rocmfp2_mix>) -> (tensor<1x3x32xf32>, tensor<1x3x32xf32>)
  return
}

// -----

func.func @expert_down_c3(%h: !ds4.q8<1x3x128>, %e: tensor<1x3xi32>, %w: !ds4.weight<8x64x128xq3_1_rocmfp3_mix>, %b: tensor<8x2x8xf32>) {
  // expected-error @+1 {{int8 activations need codebooks of i8, not 'f32'}}
  %0 = ds4.expert_down %h, %e, %w books %b : (!ds4.q8<1x3x128>, tensor<1x3xi32>, !ds4.weight<8x64x128xq3_1_rocmfp3_mix>, tensor<8x2x8xf32>) -> tensor<1x3x64xf32>
  return
}

// -----

func.func @expert_down_c3_float(%h: tensor<1x3x128xf32>, %e: tensor<1x3xi32>, %w: !ds4.weight<8x64x128xq3_1_rocmfp3_mix>, %b: tensor<8x2x12xi8>) {
  // expected-error @+1 {{f32 activations need codebooks of f32, not 'i8'}}
  %0 = ds4.expert_down %h, %e, %w books %b : (tensor<1x3x128xf32>, tensor<1x3xi32>, !ds4.weight<8x64x128xq3_1_rocmfp3_mix>, tensor<8x2x12xi8>) -> tensor<1x3x64xf32>
  return
}

// -----

func.func @swiglu_c1(%x: tensor<1x32xf32>) {
  // expected-error @+1 {{limit is not positive}}
  %0 = ds4.swiglu %x, %x limit 0.0 : tensor<1x32xf32>
  return
}

// -----

func.func @expert_down_c2(%h: tensor<1x3x128xf32>, %e: tensor<1x3xi32>, %w: !ds4.weight<8x64x128xf16>) {
  // expected-error @+1 {{the result is [1, 3, 32], expected [1, 3, 64]}}
  %0 = ds4.expert_down %h, %e, %w : (tensor<1x3x128xf32>, tensor<1x3xi32>, !ds4.weight<8x64x128xf16>) -> tensor<1x3x32xf32>
  return
}

// -----

func.func @combine_c2(%y: tensor<1x3x64xf32>, %w: tensor<1x3xf32>, %s: tensor<1x32xf32>) {
  // expected-error @+1 {{shared is [1, 32], expected [1, 64]}}
  %0 = ds4.combine %y, %w, %s : (tensor<1x3x64xf32>, tensor<1x3xf32>, tensor<1x32xf32>) -> tensor<1x64xf32>
  return
}

// -----

func.func @take_outputs_c1(%x: tensor<2x4x64xf32>) {
  // expected-error @+1 {{takes [3, 4, 64] from [2, 4, 64]}}
  %0 = ds4.take_outputs %x : (tensor<2x4x64xf32>) -> tensor<3x4x64xf32>
  return
}

// -----

func.func @argmax_c1(%x: tensor<2x64xf32>) {
  // expected-error @+1 {{the result is [1], expected [2]}}
  %0 = ds4.argmax %x : (tensor<2x64xf32>) -> tensor<1xi32>
  return
}

// -----
func.func @launch_c1() {
  ds4.launch "leaf" {
    // expected-error @+1 {{has no kernel and cannot be in a launch}}
    %0 = ds4.weight "w" : !ds4.weight<64xf32>
  }
  return
}

// -----
func.func @launch_c2_types(%x: tensor<1x64xf32>) {
  // expected-error @+1 {{yields 1 values whose types are not those of its 1 results}}
  %0 = ds4.launch "types" : tensor<1x32xf32> {
    %1 = ds4.rms_norm %x eps 1.0e-6 : (tensor<1x64xf32>) -> tensor<1x64xf32>
    ds4.yield %1 : tensor<1x64xf32>
  }
  return
}

// -----
func.func @launch_c2_outside(%x: tensor<1x64xf32>) {
  // expected-error @+1 {{yields a value that is made outside}}
  %0 = ds4.launch "outside" : tensor<1x64xf32> {
    ds4.yield %x : tensor<1x64xf32>
  }
  return
}

// -----
func.func @launch_c3() {
  // expected-error @+1 {{'two words' is no name for a kernel}}
  ds4.launch "two words" {
  }
  return
}

// -----
func.func @launch_c4_selections(%x: tensor<1x64xf32>) {
  // expected-error @+1 {{cannot be one launch: two selections: a NaN of one could not be told from the other's}}
  ds4.launch "choose" {
    %0 = ds4.argmax %x : (tensor<1x64xf32>) -> tensor<1xi32>
    %1 = ds4.argmax %x : (tensor<1x64xf32>) -> tensor<1xi32>
  }
  return
}

// -----
func.func @launch_c4_rows(%x: tensor<8x64xf32>) {
  // expected-error @+1 {{cannot be one launch: rms_norm has other rows than take_outputs, which it reads}}
  ds4.launch "rows" {
    %0 = ds4.take_outputs %x : (tensor<8x64xf32>) -> tensor<2x64xf32>
    %1 = ds4.rms_norm %0 eps 1.0e-6 : (tensor<2x64xf32>) -> tensor<2x64xf32>
  }
  return
}

// -----
func.func @launch_c4_cache(%x: tensor<8x64xf32>) {
  %ring = ds4.state "ring" : !ds4.state<64x64xf32>
  // expected-error @+1 {{cannot be one launch: append and append share a cache, and rows of a step run side by side}}
  ds4.launch "twice" {
    %0 = ds4.rms_norm %x eps 1.0e-6 : (tensor<8x64xf32>) -> tensor<8x64xf32>
    ds4.append %0, %ring : tensor<8x64xf32>, !ds4.state<64x64xf32>
    ds4.append %0, %ring : tensor<8x64xf32>, !ds4.state<64x64xf32>
  }
  return
}

// -----
func.func @launch_c4_heads(%x: tensor<1x64xf32>) {
  %ring = ds4.state "ring" : !ds4.state<64x64xf32>
  // expected-error @+1 {{cannot be one launch: append and append share a cache and run side by side}}
  ds4.launch "twice" {
    ds4.append %x, %ring : tensor<1x64xf32>, !ds4.state<64x64xf32>
    ds4.append %x, %ring : tensor<1x64xf32>, !ds4.state<64x64xf32>
  }
  return
}

// -----

func.func @launch_c4_step(%e: tensor<8x3xi32>, %x: tensor<8x64xf32>) {
  // expected-error @+1 {{cannot be one launch: group_pairs takes a step as a whole}}
  %0:2 = ds4.launch "pairs" : tensor<8x3xi32>, tensor<8x64xf32> {
    %1 = ds4.group_pairs %e of 8 : (tensor<8x3xi32>) -> tensor<8x3xi32>
    %2 = ds4.swiglu %x, %x limit 3.0 : tensor<8x64xf32>
    ds4.yield %1, %2 : tensor<8x3xi32>, tensor<8x64xf32>
  }
  return
}
