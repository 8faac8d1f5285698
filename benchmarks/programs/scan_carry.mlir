// SPDX-License-Identifier: MIT OR Apache-2.0
// h = tanh(a * h + x_t), 1,024 steps of 512 floats; only the last state is kept.
func.func @main(%x: tensor<1024x512xf32>, %a: tensor<512xf32>, %h0: tensor<512xf32>) -> tensor<512xf32> {
  %last = fuel.scan init(%h = %h0 : tensor<512xf32>) xs(%x_t = %x : tensor<1024x512xf32>)
      consts(%w = %a : tensor<512xf32>) length 1024 -> tensor<512xf32> {
    %kept = fuel.mul %w, %h : tensor<512xf32>
    %sum = fuel.add %kept, %x_t : tensor<512xf32>
    %next = fuel.tanh %sum : tensor<512xf32>
    fuel.scan_yield carry(%next : tensor<512xf32>)
  }
  func.return %last : tensor<512xf32>
}
