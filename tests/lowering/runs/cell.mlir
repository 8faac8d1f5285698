// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x_0: tensor<6x1x8xf32>, %h_0: tensor<1x8xf32>, %u_0: tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<6x1x8xf32>) {
  %last_0, %hs_0 = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x_0 : tensor<6x1x8xf32>, %h_1 = %h_0 : tensor<1x8xf32>, %u_1 = %u_0 : tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<6x1x8xf32>) {
    %last_1, %hs_1 = fuel.kernel scan "gated cell" (%x_2 = %x_1 : tensor<6x1x8xf32>, %h_2 = %h_1 : tensor<1x8xf32>, %u_2 = %u_1 : tensor<8x8xf32>) -> (tensor<1x8xf32>, tensor<6x1x8xf32>) {
      %last_2, %hs_2 = fuel.scan init(%c_3 = %h_2 : tensor<1x8xf32>) xs(%x_t_3 = %x_2 : tensor<6x1x8xf32>) consts(%u_3 = %u_2 : tensor<8x8xf32>) length 6 -> (tensor<1x8xf32>, tensor<6x1x8xf32>) {
        %turned_3 = fuel.transpose %u_3 : tensor<8x8xf32> -> tensor<8x8xf32>
        %m_3 = fuel.matmul %c_3, %turned_3 : tensor<1x8xf32>, tensor<8x8xf32> -> tensor<1x8xf32>
        %pre_3 = fuel.add %m_3, %x_t_3 : tensor<1x8xf32>
        %gate_3 = fuel.sigmoid %pre_3 : tensor<1x8xf32>
        %new_3 = fuel.tanh %pre_3 : tensor<1x8xf32>
        %change_3 = fuel.sub %new_3, %c_3 : tensor<1x8xf32>
        %step_3 = fuel.mul %gate_3, %change_3 : tensor<1x8xf32>
        %n_3 = fuel.add %c_3, %step_3 : tensor<1x8xf32>
        fuel.scan_yield carry(%n_3 : tensor<1x8xf32>) ys(%n_3 : tensor<1x8xf32>)
      }
      fuel.yield %last_2, %hs_2 : tensor<1x8xf32>, tensor<6x1x8xf32>
    }
    fuel.yield %last_1, %hs_1 : tensor<1x8xf32>, tensor<6x1x8xf32>
  }
  func.return %last_0, %hs_0 : tensor<1x8xf32>, tensor<6x1x8xf32>
}
