// Sixteen float lanes in two AVX2 registers. Needs FMA and F16C as well.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace OKIBI_ISA {

struct Words {
  __m256i lo, hi;
};

struct Floats {
  __m256 lo, hi;
};

inline Floats zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline Floats set1(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, Floats a) {
  _mm256_storeu_ps(p, a.lo);
  _mm256_storeu_ps(p + 8, a.hi);
}
inline Floats load_first(const float* p, std::size_t n) {
  alignas(32) float lanes[16] = {};
  std::memcpy(lanes, p, n * sizeof(float));
  return load(lanes);
}
inline void store_first(float* p, std::size_t n, Floats a) {
  alignas(32) float lanes[16];
  store(lanes, a);
  std::memcpy(p, lanes, n * sizeof(float));
}
inline Floats operator+(Floats a, Floats b) {
  return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)};
}
inline Floats operator-(Floats a, Floats b) {
  return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)};
}
inline Floats operator*(Floats a, Floats b) {
  return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)};
}
inline Floats operator/(Floats a, Floats b) {
  return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)};
}
inline Floats fma(Floats a, Floats b, Floats c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
inline Floats max(Floats a, Floats b) {
  return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)};
}
inline Floats min(Floats a, Floats b) {
  return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)};
}
inline Floats round(Floats a) {
  constexpr int kMode = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
  return {_mm256_round_ps(a.lo, kMode), _mm256_round_ps(a.hi, kMode)};
}
inline __m256 power_of_two(__m256 n) {
  const __m256i biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
  return _mm256_castsi256_ps(_mm256_slli_epi32(biased, 23));
}
// 2^n for integral n within the exponent range of float.
inline Floats power_of_two(Floats n) { return {power_of_two(n.lo), power_of_two(n.hi)}; }
inline float sum(Floats a) {
  const __m256 both = _mm256_add_ps(a.lo, a.hi);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
inline float largest(Floats a) {
  const __m256 both = _mm256_max_ps(a.lo, a.hi);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

inline Words load_words(const void* p) {
  const auto* at = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(at), _mm256_loadu_si256(at + 1)};
}
inline Words shift_right(Words a, unsigned bits) {
  return {_mm256_srli_epi32(a.lo, bits), _mm256_srli_epi32(a.hi, bits)};
}
inline Words shift_left(Words a, unsigned bits) {
  return {_mm256_slli_epi32(a.lo, bits), _mm256_slli_epi32(a.hi, bits)};
}
inline Words shift_right_signed(Words a, unsigned bits) {
  return {_mm256_srai_epi32(a.lo, bits), _mm256_srai_epi32(a.hi, bits)};
}
inline Words operator&(Words a, std::uint32_t mask) {
  const __m256i m = _mm256_set1_epi32(static_cast<int>(mask));
  return {_mm256_and_si256(a.lo, m), _mm256_and_si256(a.hi, m)};
}
inline Floats as_floats(Words a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
inline Floats to_floats(Words a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
// The lowest four bits of every word as a number.
inline Floats nibble(Words a) { return to_floats(a & 15u); }

inline Floats load_half(const std::uint16_t* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
inline __m256 widen_bf16(__m128i narrow) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(narrow), 16));
}
inline Floats load_bf16(const std::uint16_t* p) {
  const auto* at = reinterpret_cast<const __m128i*>(p);
  return {widen_bf16(_mm_loadu_si128(at)), widen_bf16(_mm_loadu_si128(at + 1))};
}
inline __m256i round_to_bf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded =
      _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
// Rounds to nearest even; NaN stays NaN.
inline void store_bf16(std::uint16_t* p, Floats a) {
  const __m256i packed = _mm256_packus_epi32(round_to_bf16(a.lo), round_to_bf16(a.hi));
  const __m256i ordered = _mm256_permute4x64_epi64(packed, 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), ordered);
}

}  // namespace OKIBI_ISA
