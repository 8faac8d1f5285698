// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-bake-variants | filecheck %s
// RUN: xdsl-opt %s -p fuel-bake-variants,fuel-bake-variants | filecheck %s
// RUN: xdsl-opt %s -p 'fuel-bake-variants{within=1}' | filecheck %s --check-prefix=ONE
// RUN: not xdsl-opt %s -p 'fuel-bake-variants{within=0.9}' 2>&1 | filecheck %s --check-prefix=WITHIN

// WITHIN: fuel-bake-variants: within must be >= 1, got 0.9

// An arm over 1.5 times the cheapest goes.
// ONE-LABEL: @three
// ONE-NEXT: fuel.neg
// ONE-NEXT: func.return
// CHECK-LABEL: @three
// CHECK-NEXT:    %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price 100 origin "a-pass: why" {
// CHECK-NEXT:      %0 = fuel.neg %a : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %0 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    arm on #fuel.target<cpu, "numpy"> price 150 origin "a-pass: why" {
// CHECK-NEXT:      %1 = fuel.mul_scalar %a {scalar = -1.000000e+00 : f64} : tensor<4xf32>
// CHECK-NEXT:      fuel.yield %1 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:    func.return %y : tensor<4xf32>
func.func @three(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 100 origin "a-pass: why" {
    %0 = fuel.neg %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 150 origin "a-pass: why" {
    %0 = fuel.mul_scalar %a {scalar = -1.0 : f64} : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 151 origin "a-pass: why" {
    %c = fuel.const 0.0 : f32 -> tensor<4xf32>
    %0 = fuel.sub %c, %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  func.return %y : tensor<4xf32>
}

// The cheapest wins wherever it stands; without all prices arm 0 does.
// CHECK-LABEL: @collapse
// CHECK-NEXT:    %y = fuel.mul_scalar %x {scalar = -1.000000e+00 : f64} : tensor<4xf32>
// CHECK-NEXT:    %z = fuel.exp %x : tensor<4xf32>
// CHECK-NEXT:    func.return %y, %z : tensor<4xf32>, tensor<4xf32>
func.func @collapse(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 1000 origin "a-pass: why" {
    %0 = fuel.neg %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 100 origin "a-pass: why" {
    %0 = fuel.mul_scalar %a {scalar = -1.0 : f64} : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  %z = fuel.branch "d1"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 1000 origin "a-pass: why" {
    %0 = fuel.exp %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> origin "a-pass: why" {
    fuel.yield %a : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// What a person wrote stays, and so does a choice between devices.
// CHECK-LABEL: @stay
// CHECK: fuel.branch "mine"
// CHECK: arm on #fuel.target<cpu, "numpy"> price 1000 {
// CHECK: arm on #fuel.target<cpu, "numpy"> price 1 {
// CHECK: fuel.branch "d0"
// CHECK: arm on #fuel.target<cpu, "numpy"> price 1000 origin
// CHECK: arm on #fuel.target<cuda:0, "triton"> price 1 origin
func.func @stay(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y = fuel.branch "mine"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 1000 {
    %0 = fuel.neg %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cpu, "numpy"> price 1 {
    fuel.yield %a : tensor<4xf32>
  }
  %z = fuel.branch "d0"(%a = %x : tensor<4xf32>) -> tensor<4xf32>
  arm on #fuel.target<cpu, "numpy"> price 1000 origin "a-pass: why" {
    %0 = fuel.neg %a : tensor<4xf32>
    fuel.yield %0 : tensor<4xf32>
  }
  arm on #fuel.target<cuda:0, "triton"> price 1 origin "a-pass: why" {
    fuel.yield %a : tensor<4xf32>
  }
  func.return %y, %z : tensor<4xf32>, tensor<4xf32>
}
