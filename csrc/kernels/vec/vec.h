// Sixteen float lanes, whatever the instruction set; the including file defines OKIBI_ISA, the
// namespace of that set, so that one source compiles once a set and none leaks into another.
#pragma once

#if defined(__AVX512F__)
#include "avx512.h"
#elif defined(__AVX2__)
#include "avx2.h"
#else
#include "portable.h"
#endif

namespace OKIBI_ISA {

constexpr std::size_t kLanes = 16;

// e^x to about 1e-7, relative; 0 below -87 and the largest finite power above 88.
// Cody and Waite's reduction, then the polynomial of Cephes' expf.
inline Floats exp(Floats x) {
  const Floats clamped = min(max(x, set1(-87.0f)), set1(88.0f));
  const Floats n = round(clamped * set1(1.44269504f));
  const Floats r = fma(n, set1(2.12194440e-4f), fma(n, set1(-0.693359375f), clamped));
  Floats p = set1(1.9875691500e-4f);
  p = fma(p, r, set1(1.3981999507e-3f));
  p = fma(p, r, set1(8.3334519073e-3f));
  p = fma(p, r, set1(4.1665795894e-2f));
  p = fma(p, r, set1(1.6666665459e-1f));
  p = fma(p, r, set1(5.0000001201e-1f));
  const Floats value = fma(p, r * r, r) + set1(1.0f);
  return value * power_of_two(n);
}

inline Floats silu(Floats x) { return x / (set1(1.0f) + exp(zero() - x)); }

}  // namespace OKIBI_ISA
