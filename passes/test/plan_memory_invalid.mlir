// RUN: ds4-opt %s --ds4-plan-memory --split-input-file --verify-diagnostics

// expected-error @+1 {{must have a body of one block}}
func.func private @declared(tensor<1x256xf32>)

// -----

func.func @other_dialect(%x: tensor<1x256xf32>) {
  // expected-error @+1 {{is not an op of the ds4 dialect}}
  call @other_dialect(%x) : (tensor<1x256xf32>) -> ()
  return
}

// -----

func.func @unknown_size(%x: tensor<?x256xf32>) {
  // expected-error @+1 {{result 'tensor<?x256xf32>' has no static size}}
  %a = ds4.hadamard %x : (tensor<?x256xf32>) -> tensor<?x256xf32>
  return
}
