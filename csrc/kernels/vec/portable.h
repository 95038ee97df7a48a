// Sixteen float lanes in an array, for compilers to vectorise as they can.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "../bfloat16.h"

namespace OKIBI_ISA {

constexpr std::size_t kWidth = 16;

struct Words {
  std::uint32_t v[kWidth];
};

struct Floats {
  float v[kWidth];
};

template <typename F>
inline Floats each(F&& lane) {
  Floats out;
  for (std::size_t i = 0; i < kWidth; ++i) out.v[i] = lane(i);
  return out;
}
template <typename F>
inline Words each_word(F&& lane) {
  Words out;
  for (std::size_t i = 0; i < kWidth; ++i) out.v[i] = lane(i);
  return out;
}

inline Floats zero() { return {}; }
inline Floats set1(float x) {
  return each([&](std::size_t) { return x; });
}
inline Floats load(const float* p) {
  return each([&](std::size_t i) { return p[i]; });
}
inline void store(float* p, Floats a) { std::memcpy(p, a.v, sizeof(a.v)); }
inline Floats load_first(const float* p, std::size_t n) {
  Floats out = {};
  std::memcpy(out.v, p, n * sizeof(float));
  return out;
}
inline void store_first(float* p, std::size_t n, Floats a) {
  std::memcpy(p, a.v, n * sizeof(float));
}
inline Floats operator+(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] + b.v[i]; });
}
inline Floats operator-(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] - b.v[i]; });
}
inline Floats operator*(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] * b.v[i]; });
}
inline Floats operator/(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] / b.v[i]; });
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return each([&](std::size_t i) { return a.v[i] * b.v[i] + c.v[i]; });
}
inline Floats max(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats min(Floats a, Floats b) {
  return each([&](std::size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
inline Floats round(Floats a) {
  return each([&](std::size_t i) { return std::nearbyint(a.v[i]); });
}
// 2^n for integral n within the exponent range of float.
inline Floats power_of_two(Floats n) {
  return each([&](std::size_t i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(static_cast<int>(n.v[i]) + 127) << 23;
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
  });
}
inline float sum(Floats a) {
  float total = 0.0f;
  for (float lane : a.v) total += lane;
  return total;
}
inline float largest(Floats a) {
  float best = a.v[0];
  for (float lane : a.v) best = lane > best ? lane : best;
  return best;
}

inline Words load_words(const void* p) {
  Words out;
  std::memcpy(out.v, p, sizeof(out.v));
  return out;
}
inline Words shift_right(Words a, unsigned bits) {
  return each_word([&](std::size_t i) { return a.v[i] >> bits; });
}
inline Words shift_left(Words a, unsigned bits) {
  return each_word([&](std::size_t i) { return a.v[i] << bits; });
}
inline Words shift_right_signed(Words a, unsigned bits) {
  return each_word([&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(a.v[i]) >> bits);
  });
}
inline Words operator&(Words a, std::uint32_t mask) {
  return each_word([&](std::size_t i) { return a.v[i] & mask; });
}
inline Floats as_floats(Words a) {
  Floats out;
  std::memcpy(out.v, a.v, sizeof(out.v));
  return out;
}
inline Floats to_floats(Words a) {
  return each([&](std::size_t i) {
    return static_cast<float>(static_cast<std::int32_t>(a.v[i]));
  });
}
// The lowest four bits of every word as a number.
inline Floats nibble(Words a) { return to_floats(a & 15u); }

inline Floats load_half(const std::uint16_t* p) {
  return each([&](std::size_t i) { return okibi::half_to_float(p[i]); });
}
inline Floats load_bf16(const std::uint16_t* p) {
  return each([&](std::size_t i) { return okibi::bf16_to_float(p[i]); });
}
// Rounds to nearest even; NaN stays NaN.
inline void store_bf16(std::uint16_t* p, Floats a) {
  for (std::size_t i = 0; i < kWidth; ++i) p[i] = okibi::float_to_bf16(a.v[i]);
}

}  // namespace OKIBI_ISA
