// SPDX-License-Identifier: MIT OR Apache-2.0
func.func @main(%x_0: tensor<3x301x160xf32>, %g_0: tensor<160xf32>, %s_0: tensor<3x1x160xf32>, %t_0: tensor<3x160x301xf32>) -> (tensor<3x301x160xf32>, tensor<3x301x160xf32>, tensor<160x301x3xf32>) {
  %y_0, %z_0, %v_0 = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x_0 : tensor<3x301x160xf32>, %g_1 = %g_0 : tensor<160xf32>, %s_1 = %s_0 : tensor<3x1x160xf32>, %t_1 = %t_0 : tensor<3x160x301xf32>) -> (tensor<3x301x160xf32>, tensor<3x301x160xf32>, tensor<160x301x3xf32>) {
    %y_1, %m_1 = fuel.kernel pointwise "mul_add_exp_maximum" (%x_2 = %x_1 : tensor<3x301x160xf32>, %g_2 = %g_1 : tensor<160xf32>, %s_2 = %s_1 : tensor<3x1x160xf32>, %t_2 = %t_1 : tensor<3x160x301xf32>) -> (tensor<3x301x160xf32>, tensor<3x301x160xf32>) {
      %gain_2 = fuel.broadcast_to %g_2 : tensor<160xf32> -> tensor<3x301x160xf32>
      %shift_2 = fuel.broadcast_to %s_2 : tensor<3x1x160xf32> -> tensor<3x301x160xf32>
      %back_2 = fuel.flip %t_2 {dim = 2 : i64} : tensor<3x160x301xf32> -> tensor<3x160x301xf32>
      %turned_2 = fuel.transpose %back_2 : tensor<3x160x301xf32> -> tensor<3x301x160xf32>
      %t0 = fuel.mul %x_2, %gain_2 : tensor<3x301x160xf32>
      %t1 = fuel.add %t0, %shift_2 : tensor<3x301x160xf32>
      %t2 = fuel.tanh %t1 : tensor<3x301x160xf32>
      %m_2 = fuel.maximum %t2, %turned_2 : tensor<3x301x160xf32>
      %y_2 = fuel.sub %m_2, %t0 : tensor<3x301x160xf32>
      fuel.yield %y_2, %m_2 : tensor<3x301x160xf32>, tensor<3x301x160xf32>
    }
    %z_1 = fuel.kernel library "layer_norm_last_dim" (%m_2 = %m_1 : tensor<3x301x160xf32>) -> tensor<3x301x160xf32> {
      %z_2 = fuel.layer_norm_last_dim %m_2 {eps = 1.0e-05 : f64} : tensor<3x301x160xf32>
      fuel.yield %z_2 : tensor<3x301x160xf32>
    }
    %v_1 = fuel.kernel pointwise "permute" (%y_2 = %y_1 : tensor<3x301x160xf32>) -> tensor<160x301x3xf32> {
      %v_2 = fuel.permute %y_2 {axes = array<i64: 2, 1, 0>} : tensor<3x301x160xf32> -> tensor<160x301x3xf32>
      fuel.yield %v_2 : tensor<160x301x3xf32>
    }
    fuel.yield %y_1, %z_1, %v_1 : tensor<3x301x160xf32>, tensor<3x301x160xf32>, tensor<160x301x3xf32>
  }
  func.return %y_0, %z_0, %v_0 : tensor<3x301x160xf32>, tensor<3x301x160xf32>, tensor<160x301x3xf32>
}
