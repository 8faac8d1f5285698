// SPDX-License-Identifier: MIT OR Apache-2.0
// RUN: xdsl-opt %s | xdsl-opt | filecheck %s
// RUN: xdsl-opt %s --print-op-generic | xdsl-opt | filecheck %s

func.func @binary(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
  %add = fuel.add %a, %b : tensor<4x8xf32>
  %sub = fuel.sub %a, %b : tensor<4x8xf32>
  %mul = fuel.mul %a, %b : tensor<4x8xf32>
  %div = fuel.div %a, %b : tensor<4x8xf32>
  %pow = fuel.pow %a, %b : tensor<4x8xf32>
  %rem = fuel.rem %a, %b : tensor<4x8xf32>
  %maximum = fuel.maximum %a, %b : tensor<4x8xf32>
  %minimum = fuel.minimum %a, %b : tensor<4x8xf32>
  func.return
}

func.func @comparison(%a: tensor<4xi8>, %b: tensor<4xi8>) {
  %eq = fuel.eq %a, %b : tensor<4xi8> -> tensor<4xi1>
  %ne = fuel.ne %a, %b : tensor<4xi8> -> tensor<4xi1>
  %lt = fuel.lt %a, %b : tensor<4xi8> -> tensor<4xi1>
  %le = fuel.le %a, %b : tensor<4xi8> -> tensor<4xi1>
  %gt = fuel.gt %a, %b : tensor<4xi8> -> tensor<4xi1>
  %ge = fuel.ge %a, %b : tensor<4xi8> -> tensor<4xi1>
  func.return
}

func.func @unary(%x: tensor<3xbf16>) {
  %neg = fuel.neg %x : tensor<3xbf16>
  %sqr = fuel.sqr %x : tensor<3xbf16>
  %abs = fuel.abs %x : tensor<3xbf16>
  %relu = fuel.relu %x : tensor<3xbf16>
  %step = fuel.step %x : tensor<3xbf16>
  %sign = fuel.sign %x : tensor<3xbf16>
  %floor = fuel.floor %x : tensor<3xbf16>
  %ceil = fuel.ceil %x : tensor<3xbf16>
  %round = fuel.round %x : tensor<3xbf16>
  %sqrt = fuel.sqrt %x : tensor<3xbf16>
  %rsqrt = fuel.rsqrt %x : tensor<3xbf16>
  %recip = fuel.recip %x : tensor<3xbf16>
  %exp = fuel.exp %x : tensor<3xbf16>
  %log = fuel.log %x : tensor<3xbf16>
  %sin = fuel.sin %x : tensor<3xbf16>
  %cos = fuel.cos %x : tensor<3xbf16>
  %tanh = fuel.tanh %x : tensor<3xbf16>
  %sigmoid = fuel.sigmoid %x : tensor<3xbf16>
  %silu = fuel.silu %x : tensor<3xbf16>
  %erf = fuel.erf %x : tensor<3xbf16>
  %gelu = fuel.gelu %x : tensor<3xbf16>
  %gelu_tanh = fuel.gelu_tanh %x : tensor<3xbf16>
  func.return
}

func.func @parameters(%x: tensor<2xf64>, %i: tensor<2xi32>, %m: tensor<2xi1>, %e: tensor<0x2xf8E4M3FN>, %n: tensor<0x2xi1>) {
  %add_scalar = fuel.add_scalar %x {scalar = -0.0 : f64} : tensor<2xf64>
  %mul_scalar = fuel.mul_scalar %x {scalar = 0x7FF8000000000000 : f64} : tensor<2xf64>
  %powi = fuel.powi %i {exponent = -3 : i64} : tensor<2xi32>
  %clamp = fuel.clamp %x {min = -1.0 : f64, max = 0x7FF0000000000000 : f64} : tensor<2xf64>
  %where = fuel.where %m, %i, %i : tensor<2xi1>, tensor<2xi32>
  %fill = fuel.masked_fill %i, %m {value = 7 : i32} : tensor<2xi32>, tensor<2xi1>
  %fill_f8 = fuel.masked_fill %e, %n {value = 0.5 : f8E4M3FN} : tensor<0x2xf8E4M3FN>, tensor<0x2xi1>
  %cast = fuel.cast %x : tensor<2xf64> -> tensor<2xui8>
  %placed = fuel.add %x, %x {placement = #fuel.device<cuda:1>, hint = "kept"} : tensor<2xf64>
  func.return
}

// CHECK: func.func @binary(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) {
// CHECK-NEXT:   %add = fuel.add %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %sub = fuel.sub %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %mul = fuel.mul %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %div = fuel.div %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %pow = fuel.pow %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %rem = fuel.rem %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %maximum = fuel.maximum %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   %minimum = fuel.minimum %a, %b : tensor<4x8xf32>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @comparison(%a: tensor<4xi8>, %b: tensor<4xi8>) {
// CHECK-NEXT:   %eq = fuel.eq %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   %ne = fuel.ne %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   %lt = fuel.lt %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   %le = fuel.le %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   %gt = fuel.gt %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   %ge = fuel.ge %a, %b : tensor<4xi8> -> tensor<4xi1>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @unary(%x: tensor<3xbf16>) {
// CHECK-NEXT:   %neg = fuel.neg %x : tensor<3xbf16>
// CHECK-NEXT:   %sqr = fuel.sqr %x : tensor<3xbf16>
// CHECK-NEXT:   %abs = fuel.abs %x : tensor<3xbf16>
// CHECK-NEXT:   %relu = fuel.relu %x : tensor<3xbf16>
// CHECK-NEXT:   %step = fuel.step %x : tensor<3xbf16>
// CHECK-NEXT:   %sign = fuel.sign %x : tensor<3xbf16>
// CHECK-NEXT:   %floor = fuel.floor %x : tensor<3xbf16>
// CHECK-NEXT:   %ceil = fuel.ceil %x : tensor<3xbf16>
// CHECK-NEXT:   %round = fuel.round %x : tensor<3xbf16>
// CHECK-NEXT:   %sqrt = fuel.sqrt %x : tensor<3xbf16>
// CHECK-NEXT:   %rsqrt = fuel.rsqrt %x : tensor<3xbf16>
// CHECK-NEXT:   %recip = fuel.recip %x : tensor<3xbf16>
// CHECK-NEXT:   %exp = fuel.exp %x : tensor<3xbf16>
// CHECK-NEXT:   %log = fuel.log %x : tensor<3xbf16>
// CHECK-NEXT:   %sin = fuel.sin %x : tensor<3xbf16>
// CHECK-NEXT:   %cos = fuel.cos %x : tensor<3xbf16>
// CHECK-NEXT:   %tanh = fuel.tanh %x : tensor<3xbf16>
// CHECK-NEXT:   %sigmoid = fuel.sigmoid %x : tensor<3xbf16>
// CHECK-NEXT:   %silu = fuel.silu %x : tensor<3xbf16>
// CHECK-NEXT:   %erf = fuel.erf %x : tensor<3xbf16>
// CHECK-NEXT:   %gelu = fuel.gelu %x : tensor<3xbf16>
// CHECK-NEXT:   %gelu_tanh = fuel.gelu_tanh %x : tensor<3xbf16>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: func.func @parameters(%x: tensor<2xf64>, %i: tensor<2xi32>, %m: tensor<2xi1>, %e: tensor<0x2xf8E4M3FN>, %n: tensor<0x2xi1>) {
// CHECK-NEXT:   %add_scalar = fuel.add_scalar %x {scalar = -0.000000e+00 : f64} : tensor<2xf64>
// CHECK-NEXT:   %mul_scalar = fuel.mul_scalar %x {scalar = 0x7ff8000000000000 : f64} : tensor<2xf64>
// CHECK-NEXT:   %powi = fuel.powi %i {exponent = -3 : i64} : tensor<2xi32>
// CHECK-NEXT:   %clamp = fuel.clamp %x {min = -1.000000e+00 : f64, max = 0x7ff0000000000000 : f64} : tensor<2xf64>
// CHECK-NEXT:   %where = fuel.where %m, %i, %i : tensor<2xi1>, tensor<2xi32>
// CHECK-NEXT:   %fill = fuel.masked_fill %i, %m {value = 7 : i32} : tensor<2xi32>, tensor<2xi1>
// CHECK-NEXT:   %fill_f8 = fuel.masked_fill %e, %n {value = 5.000000e-01 : f8E4M3FN} : tensor<0x2xf8E4M3FN>, tensor<0x2xi1>
// CHECK-NEXT:   %cast = fuel.cast %x : tensor<2xf64> -> tensor<2xui8>
// CHECK-NEXT:   %placed = fuel.add %x, %x {hint = "kept", placement = #fuel.device<cuda:1>} : tensor<2xf64>
// CHECK-NEXT:   func.return
// CHECK-NEXT: }
// CHECK-NEXT: }
