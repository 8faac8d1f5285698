// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-strip-plan | filecheck %s
// RUN: xdsl-opt %s -p fuel-strip-plan,fuel-strip-plan | filecheck %s

// What a person wrote stays: the stamp, branches, pins and transfers without `planned`.
builtin.module attributes {fuel.topology = #fuel.topology<"mine", [#fuel.target<cpu, "numpy">]>} {

// A run and its kernels are the ops they hold, where they stood.
// CHECK-LABEL: @run
// CHECK-NEXT:    %w = fuel.weight "w" : tensor<4x8xf32>
// CHECK-NEXT:    %f = fuel.broadcast_to %g : tensor<8xf32> -> tensor<4x8xf32>
// CHECK-NEXT:    %y = fuel.mul %x, %f : tensor<4x8xf32>
// CHECK-NEXT:    %z = fuel.add %y, %w : tensor<4x8xf32>
// CHECK-NEXT:    %o = fuel.softmax_last_dim %z {placement = #fuel.device<cpu>} : tensor<4x8xf32>
// CHECK-NEXT:    func.return %o : tensor<4x8xf32>
func.func @run(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %r = fuel.run on #fuel.target<cpu, "numpy"> (%a = %x : tensor<4x8xf32>, %b = %g : tensor<8xf32>) -> tensor<4x8xf32> {
    %w = fuel.weight "w" : tensor<4x8xf32>
    %k = fuel.kernel pointwise "mul_add"(%c = %a : tensor<4x8xf32>, %d = %b : tensor<8xf32>, %e = %w : tensor<4x8xf32>) -> tensor<4x8xf32> {
      %f = fuel.broadcast_to %d : tensor<8xf32> -> tensor<4x8xf32>
      %y = fuel.mul %c, %f : tensor<4x8xf32>
      %z = fuel.add %y, %e : tensor<4x8xf32>
      fuel.yield %z : tensor<4x8xf32>
    }
    %s = fuel.kernel library "softmax_last_dim"(%c = %k : tensor<4x8xf32>) -> tensor<4x8xf32> {
      %o = fuel.softmax_last_dim %c {placement = #fuel.device<cpu>} : tensor<4x8xf32>
      fuel.yield %o : tensor<4x8xf32>
    }
    fuel.yield %s : tensor<4x8xf32>
  }
  func.return %r : tensor<4x8xf32>
}

// A branch that a pass made is its arm 0; one in its arms that a person wrote stays.
// CHECK-LABEL: @planned_branch
// CHECK-NEXT:    %e = fuel.exp %x : tensor<4xf32>
// CHECK-NEXT:    %m = fuel.branch "mine"(%d = %e : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %n = fuel.neg %d : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %n : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %n_1 = fuel.mul_scalar %d {scalar = -1.000000e+00 : f64} : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %n_1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %m : tensor<4xf32>
func.func @planned_branch(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 10 origin "fuel-fork-variants: as written" {
    %r = fuel.run on #fuel.target<cpu, "numpy"> (%b = %a : tensor<4xf32>) -> tensor<4xf32> {
      %k = fuel.kernel pointwise "exp"(%c = %b : tensor<4xf32>) -> tensor<4xf32> {
        %e = fuel.exp %c : tensor<4xf32>
        fuel.yield %e : tensor<4xf32>
      }
      fuel.yield %k : tensor<4xf32>
    }
    %m = fuel.branch "mine"(%d = %r : tensor<4xf32>) -> tensor<4xf32>
    arm on #fuel.target<cpu, "numpy"> {
      %n = fuel.neg %d : tensor<4xf32>
      fuel.yield %n : tensor<4xf32>
    }
    arm on #fuel.target<cpu, "numpy"> {
      %n = fuel.mul_scalar %d {scalar = -1.0 : f64} : tensor<4xf32>
      fuel.yield %n : tensor<4xf32>
    }
    fuel.yield %m : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 12 origin "fuel-fork-variants: one library call per op" {
    fuel.yield %a : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// Transfers that a pass made vanish, in arms too.
// CHECK-LABEL: @transfers
// CHECK-NEXT:    %0 = fuel.neg %x {placement = #fuel.device<cuda:0>} : tensor<4xf32>
// CHECK-NEXT:    %1 = fuel.copy %0 to #fuel.device<cpu> : tensor<4xf32>
// CHECK-NEXT:    %y = fuel.branch "mine"(%a = %1 : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      fuel.yield %a : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> {
// CHECK-NEXT:      %2 = fuel.abs %a : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %2 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4xf32>
func.func @transfers(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = fuel.move %x to #fuel.device<cuda:0> planned : tensor<4xf32>
  %1 = fuel.neg %0 {placement = #fuel.device<cuda:0>} : tensor<4xf32>
  %2 = fuel.copy %1 to #fuel.device<cpu> : tensor<4xf32>
  %y = fuel.branch "mine"(%a = %2 : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> {
    %3 = fuel.copy %a to #fuel.device<cpu> planned : tensor<4xf32>
    fuel.yield %3 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> {
    %4 = fuel.abs %a : tensor<4xf32>
    fuel.yield %4 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

}
