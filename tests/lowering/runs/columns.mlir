// SPDX-License-Identifier: MIT OR Apache-2.0
builtin.module {
  func.func @main(%x: tensor<6x40x1500xf32>, %a: tensor<6000x40xf32>) -> (tensor<6x40x1500xf32>, tensor<6000x40xf32>) {
    %y, %z = fuel.run on #fuel.target<cpu, "numpy"> (%x_1 = %x : tensor<6x40x1500xf32>, %a_1 = %a : tensor<6000x40xf32>) -> (tensor<6x40x1500xf32>, tensor<6000x40xf32>) {
      %y_1 = fuel.kernel reduction "reduce_max_to_sub_exp_sum_dim_and_1_more"(%x_2 = %x_1 : tensor<6x40x1500xf32>) -> tensor<6x40x1500xf32> {
        %m = fuel.reduce_max_to %x_2 : tensor<6x40x1500xf32> -> tensor<6x1x1500xf32>
        %mb = fuel.broadcast_to %m : tensor<6x1x1500xf32> -> tensor<6x40x1500xf32>
        %d = fuel.sub %x_2, %mb : tensor<6x40x1500xf32>
        %e = fuel.exp %d : tensor<6x40x1500xf32>
        %s = fuel.sum_dim %e {dim = 1 : i64} : tensor<6x40x1500xf32> -> tensor<6x1500xf32>
        %u = fuel.unsqueeze %s {dim = 1 : i64} : tensor<6x1500xf32> -> tensor<6x1x1500xf32>
        %ub = fuel.broadcast_to %u : tensor<6x1x1500xf32> -> tensor<6x40x1500xf32>
        %y_2 = fuel.div %e, %ub : tensor<6x40x1500xf32>
        fuel.yield %y_2 : tensor<6x40x1500xf32>
      }
      %z_1 = fuel.kernel reduction "sqr_mean_dim_sqrt_div"(%a_2 = %a_1 : tensor<6000x40xf32>) -> tensor<6000x40xf32> {
        %q = fuel.sqr %a_2 : tensor<6000x40xf32>
        %c = fuel.mean_dim %q {dim = 0 : i64} : tensor<6000x40xf32> -> tensor<40xf32>
        %r = fuel.sqrt %c : tensor<40xf32>
        %rb = fuel.broadcast_to %r : tensor<40xf32> -> tensor<6000x40xf32>
        %z_2 = fuel.div %a_2, %rb : tensor<6000x40xf32>
        fuel.yield %z_2 : tensor<6000x40xf32>
      }
      fuel.yield %y_1, %z_1 : tensor<6x40x1500xf32>, tensor<6000x40xf32>
    }
    func.return %y, %z : tensor<6x40x1500xf32>, tensor<6000x40xf32>
  }
}
