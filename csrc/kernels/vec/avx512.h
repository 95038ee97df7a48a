// Sixteen float lanes in one AVX-512 register. Needs F, BW, VL and DQ.
#pragma once

#include <immintrin.h>

#include <cstddef>
#include <cstdint>

namespace OKIBI_ISA {

struct Words {
  __m512i v;
};

struct Floats {
  __m512 v;
};

inline Floats zero() { return {_mm512_setzero_ps()}; }
inline Floats set1(float x) { return {_mm512_set1_ps(x)}; }
inline Floats load(const float* p) { return {_mm512_loadu_ps(p)}; }
inline void store(float* p, Floats a) { _mm512_storeu_ps(p, a.v); }
inline __mmask16 first_lanes(std::size_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline Floats load_first(const float* p, std::size_t n) {
  return {_mm512_maskz_loadu_ps(first_lanes(n), p)};
}
inline void store_first(float* p, std::size_t n, Floats a) {
  _mm512_mask_storeu_ps(p, first_lanes(n), a.v);
}
inline Floats operator+(Floats a, Floats b) { return {_mm512_add_ps(a.v, b.v)}; }
inline Floats operator-(Floats a, Floats b) { return {_mm512_sub_ps(a.v, b.v)}; }
inline Floats operator*(Floats a, Floats b) { return {_mm512_mul_ps(a.v, b.v)}; }
inline Floats operator/(Floats a, Floats b) { return {_mm512_div_ps(a.v, b.v)}; }
inline Floats fma(Floats a, Floats b, Floats c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
inline Floats max(Floats a, Floats b) { return {_mm512_max_ps(a.v, b.v)}; }
inline Floats min(Floats a, Floats b) { return {_mm512_min_ps(a.v, b.v)}; }
inline Floats round(Floats a) {
  return {_mm512_roundscale_ps(a.v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
// 2^n for integral n within the exponent range of float.
inline Floats power_of_two(Floats n) { return {_mm512_scalef_ps(_mm512_set1_ps(1.0f), n.v)}; }
inline float sum(Floats a) { return _mm512_reduce_add_ps(a.v); }
inline float largest(Floats a) { return _mm512_reduce_max_ps(a.v); }

inline Words load_words(const void* p) { return {_mm512_loadu_si512(p)}; }
inline Words shift_right(Words a, unsigned bits) { return {_mm512_srli_epi32(a.v, bits)}; }
inline Words shift_left(Words a, unsigned bits) { return {_mm512_slli_epi32(a.v, bits)}; }
inline Words shift_right_signed(Words a, unsigned bits) { return {_mm512_srai_epi32(a.v, bits)}; }
inline Words operator&(Words a, std::uint32_t mask) {
  return {_mm512_and_si512(a.v, _mm512_set1_epi32(static_cast<int>(mask)))};
}
inline Floats as_floats(Words a) { return {_mm512_castsi512_ps(a.v)}; }
inline Floats to_floats(Words a) { return {_mm512_cvtepi32_ps(a.v)}; }
// The lowest four bits of every word as a number; one permutation instead of mask and conversion.
inline Floats nibble(Words a) {
  const __m512 values = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return {_mm512_permutexvar_ps(a.v, values)};
}

inline Floats load_half(const std::uint16_t* p) {
  return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
}
inline Floats load_bf16(const std::uint16_t* p) {
  const __m256i narrow = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return {_mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(narrow), 16))};
}
// Rounds to nearest even; NaN stays NaN.
inline __m256i to_bf16(Floats a) {
  const __m512i bits = _mm512_castps_si512(a.v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded =
      _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 nan = _mm512_cmp_ps_mask(a.v, a.v, _CMP_UNORD_Q);
  const __m512i kept =
      _mm512_mask_or_epi32(rounded, nan, bits, _mm512_set1_epi32(0x00400000));
  return _mm512_cvtepi32_epi16(_mm512_srli_epi32(kept, 16));
}
inline void store_bf16(std::uint16_t* p, Floats a) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), to_bf16(a));
}

}  // namespace OKIBI_ISA
