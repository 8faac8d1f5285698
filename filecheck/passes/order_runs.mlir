// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s -p fuel-order-runs | filecheck %s
// RUN: xdsl-opt %s -p fuel-order-runs,fuel-order-runs | filecheck %s

// Two devices whose results meet: the runs alternate instead of draining one device first, and
// the copy, which waits for the host, comes after both tails are started.
// CHECK-LABEL: @alternate
// CHECK-NEXT:    %c0 = fuel.run on #fuel.target<cuda:0, "triton">
// CHECK:         %v0 = fuel.run on #fuel.target<vulkan:0, "kompute">
// CHECK:         %c1 = fuel.run on #fuel.target<cuda:0, "triton">
// CHECK:         %v1 = fuel.run on #fuel.target<vulkan:0, "kompute">
// CHECK:         %x = fuel.copy %v1 to #fuel.device<cuda:0>
// CHECK:         %s = fuel.run on #fuel.target<cuda:0, "triton">
func.func @alternate(%p: tensor<2xf32>, %q: tensor<2xf32>) -> tensor<2xf32> {
  %c0 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %p : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %c1 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %c0 : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %v0 = fuel.run on #fuel.target<vulkan:0, "kompute"> (%a = %q : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %v1 = fuel.run on #fuel.target<vulkan:0, "kompute"> (%a = %v0 : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %x = fuel.copy %v1 to #fuel.device<cuda:0> : tensor<2xf32>
  %s = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %c1 : tensor<2xf32>, %b = %x : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "add"(%c = %a : tensor<2xf32>, %d = %b : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.add %c, %d : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  func.return %s : tensor<2xf32>
}

// The device with the heavier chunk gets its work first.
// CHECK-LABEL: @heavier_first
// CHECK-NEXT:    %v0 = fuel.run on #fuel.target<cuda:1, "triton">
// CHECK:         %v1 = fuel.run on #fuel.target<cuda:1, "triton">
// CHECK:         %c0 = fuel.run on #fuel.target<cuda:0, "triton">
func.func @heavier_first(%p: tensor<2xf32>, %q: tensor<2xf32>) -> tensor<2xf32> {
  %c0 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %p : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  %c1 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %c0 : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  %v0 = fuel.run on #fuel.target<cuda:1, "triton"> (%a = %q : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k2 = fuel.kernel pointwise "relu"(%b = %k1 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k2 : tensor<2xf32>
  }
  %v1 = fuel.run on #fuel.target<cuda:1, "triton"> (%a = %v0 : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k2 = fuel.kernel pointwise "relu"(%b = %k1 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k2 : tensor<2xf32>
  }
  %x = fuel.copy %v1 to #fuel.device<cuda:0> : tensor<2xf32>
  %s = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %c1 : tensor<2xf32>, %b = %x : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "add"(%c = %a : tensor<2xf32>, %d = %b : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.add %c, %d : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  func.return %s : tensor<2xf32>
}

// One device keeps its order.
// CHECK-LABEL: @one_device
// CHECK-NEXT:    %a0 = fuel.run
// CHECK:         %b0 = fuel.run
// CHECK:         %b1 = fuel.run
func.func @one_device(%p: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a0 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %p : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  %b0 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %p : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %b1 = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %b0 : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k2 = fuel.kernel pointwise "relu"(%b = %k1 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k2 : tensor<2xf32>
  }
  func.return %a0, %b1 : tensor<2xf32>, tensor<2xf32>
}

// The host's run has most kernels, but a card works beside it: it is asked first, and the copy, for
// which the host waits, comes last.
// CHECK-LABEL: @card_beside_host
// CHECK-NEXT:    %q = fuel.copy %p to #fuel.device<cuda:0>
// CHECK-NEXT:    %c = fuel.run on #fuel.target<cuda:0, "triton">
// CHECK:         %h = fuel.run on #fuel.target<cpu, "numpy">
// CHECK:         %d = fuel.copy %c to #fuel.device<cpu>
// CHECK-NEXT:    func.return
func.func @card_beside_host(%p: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %h = fuel.run on #fuel.target<cpu, "numpy"> (%a = %p : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    %k1 = fuel.kernel pointwise "relu"(%b = %k0 : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k1 : tensor<2xf32>
  }
  %q = fuel.copy %p to #fuel.device<cuda:0> : tensor<2xf32>
  %c = fuel.run on #fuel.target<cuda:0, "triton"> (%a = %q : tensor<2xf32>) -> tensor<2xf32> {
    %k0 = fuel.kernel pointwise "relu"(%b = %a : tensor<2xf32>) -> tensor<2xf32> {
      %0 = fuel.relu %b : tensor<2xf32>
      fuel.yield %0 : tensor<2xf32>
    }
    fuel.yield %k0 : tensor<2xf32>
  }
  %d = fuel.copy %c to #fuel.device<cpu> : tensor<2xf32>
  func.return %h, %d : tensor<2xf32>, tensor<2xf32>
}
