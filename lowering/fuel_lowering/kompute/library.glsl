// SPDX-License-Identifier: MIT OR Apache-2.0
// Functions that generated shaders call. A blank line stands between two; each is copied with those that it calls.
// Comments above a function belong to it. No function has a loop: lavapipe stops after 65,535 turns of all loops of an
// invocation, and scans and rows loop over them. Constants 0 and infinity of arithmetic are written as bits where an optimiser would fold them.

bool fuel_isnan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }

bool fuel_isinf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }

float fuel_abs(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu); }

float fuel_copysign(float x, float s) { return uintBitsToFloat((floatBitsToUint(x) & 0x7fffffffu) | (floatBitsToUint(s) & 0x80000000u)); }

float fuel_max(float a, float b) { return (a > b || fuel_isnan(a)) ? a : b; }

float fuel_min(float a, float b) { return (a < b || fuel_isnan(a)) ? a : b; }

precise float fuel_exp(precise float x) {
  precise float n = roundEven(clamp(x, -104.0, 89.0) * 1.44269504);
  precise float r = (clamp(x, -104.0, 89.0) - n * 0.693145752) - n * 1.42860677e-6;
  precise float p = ((((0.00019899331 * r + 0.0013976814) * r + 0.0083333003) * r + 0.041665778) * r + 0.16666667) * r + 0.5;
  precise float y = (p * (r * r) + r) + 1.0;
  int k = int(n);
  int h = k / 2;
  precise float s = y * intBitsToFloat((h + 127) << 23);
  s = s * intBitsToFloat((k - h + 127) << 23);
  return fuel_isnan(x) ? x : (x > 89.0 ? uintBitsToFloat(0x7f800000u) : (x < -104.0 ? 0.0 : s));
}

precise float fuel_log(precise float x) {
  int e = 0;
  precise float m = x;
  if ((floatBitsToUint(x) & 0x7f800000u) == 0u) { m = x * 8388608.0; e = -23; }
  int bits = floatBitsToInt(m);
  int up = (bits - 0x3f3504f3) >> 23;
  e += up;
  precise float f = intBitsToFloat(bits - (up << 23)) - 1.0;
  precise float p = ((((((((0.069152594 * f - 0.11789753) * f + 0.11872996) * f - 0.1238436) * f + 0.14218657) * f - 0.1666925) * f + 0.20002227) * f - 0.24999987) * f + 0.3333331);
  precise float z = f * f;
  precise float k = float(e);
  precise float y = (k * 1.42860677e-6 + (p * f * z - 0.5 * z)) + f;
  y = y + k * 0.693145752;
  uint u = floatBitsToUint(x);
  if (u == 0u || u == 0x80000000u) return uintBitsToFloat(0xff800000u);
  if (u > 0x80000000u) return uintBitsToFloat(0x7fc00000u);
  return u >= 0x7f800000u ? x : y;
}

precise float fuel_tanh(precise float x) {
  precise float a = fuel_abs(x);
  precise float s = x * x;
  precise float p = ((((-0.0041356469 * s + 0.019165006) * s - 0.053264391) * s + 0.13325439) * s - 0.33333048) * s * x + x;
  precise float q = 1.0 - 2.0 / (fuel_exp(2.0 * a) + 1.0);
  return fuel_isnan(x) ? x : fuel_copysign(a < 0.625 ? p : (a > 10.0 ? 1.0 : q), x);
}

precise float fuel_erf(precise float x) {
  precise float a = fuel_abs(x);
  precise float s = x * x;
  precise float p = x * ((((((7.8891135e-05 * s - 0.00080208393) * s + 0.0051895352) * s - 0.026854444) * s + 0.112836) * s - 0.37612626) * s + 1.1283791);
  precise float q = (((((((2.5139272e-07 * a - 2.5315736e-05) * a + 0.00046379361) * a - 0.0042824014) * a + 0.025373595) * a - 0.10863905) * a - 0.63303959) * a - 1.1296614) * a + 0.00020436324;
  q = 1.0 - fuel_exp(q);
  return fuel_isnan(x) ? x : fuel_copysign(a < 1.0 ? p : (a > 4.0 ? 1.0 : q), x);
}

// Word i of the binary digits of 2/pi after the point, with 32 zeros before them.
uint fuel_digits(uint i) {
  uint low = i < 2u ? (i == 0u ? 0u : 0xa2f9836eu) : (i == 2u ? 0x4e441529u : 0xfc2757d1u);
  uint high = i < 6u ? (i == 4u ? 0xf534ddc0u : 0xdb629599u) : (i == 6u ? 0x3c439041u : 0xfe5163abu);
  return i < 4u ? low : (i < 8u ? high : 0xdebbc561u);
}

// x modulo pi/2, |r| <= pi/4, and the quadrant in q; exact for every finite x.
precise float fuel_quadrant(precise float x, out int q) {
  precise float n = roundEven(x * 0.636619772);
  precise float near = (((x - n * 1.5703125) - n * 0.0004837512969970703) - n * 7.549533620476723e-08) - n * 2.5633440682570896e-12;
  q = int(n);
  if (fuel_abs(x) >= 1024.0 && !(fuel_isinf(x) || fuel_isnan(x))) {
  uint u = floatBitsToUint(x);
  uint mantissa = (u & 0x7fffffu) | 0x800000u;
  uint from = ((u >> 23) & 255u) - 120u;
  uint w = from >> 5, b = from & 31u;
  uint d0 = fuel_digits(w), d1 = fuel_digits(w + 1u), d2 = fuel_digits(w + 2u), d3 = fuel_digits(w + 3u);
  if (b != 0u) {
    d0 = (d0 << b) | (d1 >> (32u - b));
    d1 = (d1 << b) | (d2 >> (32u - b));
    d2 = (d2 << b) | (d3 >> (32u - b));
  }
  uint h2, l2, h1, l1, carry;
  umulExtended(mantissa, d2, h2, l2);
  umulExtended(mantissa, d1, h1, l1);
  uint mid = uaddCarry(h2, l1, carry);
  uint top = h1 + mantissa * d0 + carry;
  q = int(top >> 30);
  uint f = (top << 2) | (mid >> 30), g = (mid << 2) | (l2 >> 30);
  bool over = f >= 0x80000000u;
  if (over) { q += 1; g = ~g + 1u; f = ~f + (g == 0u ? 1u : 0u); }
  int shift = f == 0u ? 32 : 31 - findMSB(f);
  uint t = shift == 0 ? f : (shift == 32 ? g : (f << shift) | (g >> (32 - shift)));
  precise float r = float(t) * intBitsToFloat((127 - 32 - shift) << 23) * 1.57079633;
  bool negative = over != (u >= 0x80000000u);
  if (u >= 0x80000000u) q = -q;
  near = negative ? -r : r;
  }
  return near;
}

precise float fuel_sine(precise float x, int quarter) {
  int q;
  precise float r = fuel_quadrant(x, q);
  q += quarter;
  precise float s = r * r;
  precise float sine = ((1.1668462e-06 * s - 0.00019655541) * s + 0.0083326725) * s - 0.1666666;
  sine = r == 0.0 ? r : sine * s * r + r;
  precise float cosine = (((-2.7161939e-07 * s + 2.4798914e-05) * s - 0.0013888881) * s + 0.041666668) * (s * s);
  cosine = (cosine - 0.5 * s) + 1.0;
  precise float y = (q & 1) == 0 ? sine : cosine;
  y = (q & 2) == 0 ? y : -y;
  return (floatBitsToUint(x) & 0x7fffffffu) >= 0x7f800000u ? uintBitsToFloat(0x7fc00000u) : y;
}

precise float fuel_pow(precise float x, precise float y) {
  precise float a = fuel_abs(x);
  bool whole = trunc(y) == y;
  bool odd = whole && fuel_abs(y) < 16777216.0 && (int(y) & 1) != 0;
  precise float m = fuel_exp(y * fuel_log(a));
  uint ua = floatBitsToUint(a);
  if (ua == 0x3f800000u) m = 1.0;
  if (y == 1.0) m = a;
  if (y == 2.0) m = a * a;
  if (y == 0.5) m = sqrt(a);
  m = odd ? fuel_copysign(m, x) : m;
  bool undefined_ = fuel_isnan(x) || fuel_isnan(y) || (x < 0.0 && !whole && !fuel_isinf(x));
  m = undefined_ ? uintBitsToFloat(0x7fc00000u) : m;
  return y == 0.0 || floatBitsToUint(x) == 0x3f800000u ? 1.0 : m;
}

// m * 2^s modulo d, where m < d, 2^23 <= d < 2^24, and s is `left` from 0 to 20. The quotient is 1 off at most.
uint fuel_shift_modulo(uint m, uint d, precise float inverse, int left) {
  int s = clamp(left, 0, 20);
  precise float quotient = float(m) * inverse * intBitsToFloat((127 + s) << 23);
  int r = int((m << s) - uint(quotient) * d);
  r += r < 0 ? int(d) : 0;
  return uint(r < int(d) ? r : r - int(d));
}

precise float fuel_fmod(precise float x, precise float y) {
  uint a = floatBitsToUint(x) & 0x7fffffffu, b = floatBitsToUint(y) & 0x7fffffffu;
  uint sign = floatBitsToUint(x) & 0x80000000u;
  if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) return uintBitsToFloat(0x7fc00000u);
  if (a < b) return x;
  uint ma = a >= 0x800000u ? (a & 0x7fffffu) | 0x800000u : a;
  uint mb = b >= 0x800000u ? (b & 0x7fffffu) | 0x800000u : b;
  int ea = max(int(a >> 23), 1), eb = max(int(b >> 23), 1);
  int up = 23 - findMSB(mb);
  mb <<= up;
  eb -= up;
  int left = ea - eb;
  precise float inverse = 1.0 / float(mb);
  ma = ma < mb ? ma : ma - mb;
  ma = fuel_shift_modulo(ma, mb, inverse, left);
  ma = fuel_shift_modulo(ma, mb, inverse, left - 20);
  if (left > 40) {
    ma = fuel_shift_modulo(ma, mb, inverse, left - 40);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 60);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 80);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 100);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 120);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 140);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 160);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 180);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 200);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 220);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 240);
    ma = fuel_shift_modulo(ma, mb, inverse, left - 260);
  }
  if (ma == 0u) return uintBitsToFloat(sign);
  up = 23 - findMSB(ma);
  ma <<= up;
  eb -= up;
  uint result = eb > 0 ? (uint(eb) << 23) | (ma & 0x7fffffu) : ma >> uint(1 - eb);
  return uintBitsToFloat(sign | result);
}

float fuel_bf16(uint word, uint i) { return uintBitsToFloat((word >> ((i & 1u) * 16u)) << 16); }

vec4 fuel_bf16_4(uvec2 words) {
  return uintBitsToFloat(uvec4(words.x << 16, words.x & 0xffff0000u, words.y << 16, words.y & 0xffff0000u));
}

uint fuel_to_bf16(float x) {
  uint u = floatBitsToUint(x);
  return fuel_isnan(x) ? (u >> 16) | 0x40u : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
}

float fuel_round_bf16(float x) { return uintBitsToFloat(fuel_to_bf16(x) << 16); }

uvec2 fuel_pack_bf16(vec4 x) {
  uvec4 bits = floatBitsToUint(x);
  return uvec2(bits.x >> 16 | bits.y & 0xffff0000u, bits.z >> 16 | bits.w & 0xffff0000u);
}

float fuel_f16(uint word, uint i) { return unpackHalf2x16(word >> ((i & 1u) * 16u)).x; }

vec4 fuel_f16_4(uvec2 words) { return vec4(unpackHalf2x16(words.x), unpackHalf2x16(words.y)); }

// By integers and one rounding addition: Vulkan leaves open how packHalf2x16 rounds.
uint fuel_to_f16(float x) {
  uint u = floatBitsToUint(x);
  uint sign = (u >> 16) & 0x8000u, a = u & 0x7fffffffu;
  precise float small = uintBitsToFloat(a) + 0.5;
  uint rounded = (a + 0xfffu + ((a >> 13) & 1u) - 0x38000000u) >> 13;
  rounded = a < 0x38800000u ? floatBitsToUint(small) - 0x3f000000u : rounded;
  rounded = a >= 0x477ff000u ? (a > 0x7f800000u ? 0x7e00u : 0x7c00u) : rounded;
  return sign | rounded;
}

float fuel_round_f16(float x) { return unpackHalf2x16(fuel_to_f16(x)).x; }

uvec2 fuel_pack_f16(vec4 x) {
  return uvec2(fuel_to_f16(x.x) | fuel_to_f16(x.y) << 16, fuel_to_f16(x.z) | fuel_to_f16(x.w) << 16);
}

int fuel_i16(uint word, uint i) { return bitfieldExtract(int(word), int(i & 1u) * 16, 16); }

ivec4 fuel_i16_4(uvec2 words) {
  ivec2 w = ivec2(words);
  return ivec4(w.x << 16 >> 16, w.x >> 16, w.y << 16 >> 16, w.y >> 16);
}

uvec2 fuel_pack_i16(ivec4 x) {
  uvec4 bits = uvec4(x) & 0xffffu;
  return uvec2(bits.x | bits.y << 16, bits.z | bits.w << 16);
}

int fuel_i8(uint word, uint i) { return bitfieldExtract(int(word), int(i & 3u) * 8, 8); }

ivec4 fuel_i8_4(uint word) { return ivec4(int(word)) << ivec4(24, 16, 8, 0) >> 24; }

uint fuel_pack_i8(ivec4 x) {
  uvec4 bits = uvec4(x) & 0xffu;
  return bits.x | bits.y << 8 | bits.z << 16 | bits.w << 24;
}

int fuel_ui8(uint word, uint i) { return int(bitfieldExtract(word, int(i & 3u) * 8, 8)); }

ivec4 fuel_ui8_4(uint word) { return ivec4(uvec4(word) >> uvec4(0, 8, 16, 24) & 0xffu); }

uint fuel_pack_ui8(ivec4 x) { return fuel_pack_i8(x); }

bool fuel_i1(uint word, uint i) { return (word >> ((i & 3u) * 8u) & 0xffu) != 0u; }

bvec4 fuel_i1_4(uint word) {
  return notEqual(uvec4(word) >> uvec4(0, 8, 16, 24) & 0xffu, uvec4(0u));
}

uint fuel_pack_i1(bvec4 x) { return fuel_pack_i8(ivec4(x)); }
