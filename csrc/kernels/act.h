// Activations: float, or bfloat16 where OKIBI_BF16_ACT says that the level multiplies it.
#pragma once

#include <cstring>

#include "vec/vec.h"

namespace OKIBI_ISA {

inline Floats load_wide(const float* p) { return load(p); }
inline Floats load_wide(const std::uint16_t* p) { return load_bf16(p); }
inline void store_narrow(float* p, Floats a) { store(p, a); }
inline void store_narrow(std::uint16_t* p, Floats a) { store_bf16(p, a); }

template <typename T>
inline Floats load_wide_first(const T* p, std::size_t n) {
  T lanes[kLanes] = {};
  std::memcpy(lanes, p, n * sizeof(T));
  return load_wide(lanes);
}
template <typename T>
inline void store_narrow_first(T* p, std::size_t n, Floats a) {
  T lanes[kLanes];
  store_narrow(lanes, a);
  std::memcpy(p, lanes, n * sizeof(T));
}

// Lanes of a row of `count` values from `at` on, zero beyond it.
template <typename T>
inline Floats load_row(const T* row, std::size_t at, std::size_t count) {
  return at + kLanes <= count ? load_wide(row + at) : load_wide_first(row + at, count - at);
}
template <typename T>
inline void store_row(T* row, std::size_t at, std::size_t count, Floats a) {
  at + kLanes <= count ? store_narrow(row + at, a) : store_narrow_first(row + at, count - at, a);
}

#if defined(OKIBI_BF16_ACT)
using Act = std::uint16_t;
#else
using Act = float;
#endif

inline std::size_t least(std::size_t a, std::size_t b) { return a < b ? a : b; }
inline std::size_t round_up(std::size_t a, std::size_t unit) { return (a + unit - 1) / unit * unit; }

}  // namespace OKIBI_ISA
