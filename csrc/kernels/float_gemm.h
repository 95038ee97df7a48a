// Small products of float matrices, accumulators in registers.
#pragma once

#include "act.h"

namespace OKIBI_ISA {

#if defined(__AVX512F__)
constexpr std::size_t kGemmRows = 8;
#else
constexpr std::size_t kGemmRows = 3;
#endif

template <std::size_t kRows>
inline void gemm_rows(std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                      std::size_t b_stride, float* c, std::size_t c_stride) {
  Floats left[kRows], right[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    left[r] = load(c + r * c_stride);
    right[r] = load(c + r * c_stride + kLanes);
  }
  for (std::size_t k = 0; k < depth; ++k) {
    const Floats b_left = load(b + k * b_stride), b_right = load(b + k * b_stride + kLanes);
    for (std::size_t r = 0; r < kRows; ++r) {
      const Floats factor = set1(a[r * a_stride + k]);
      left[r] = fma(factor, b_left, left[r]);
      right[r] = fma(factor, b_right, right[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    store(c + r * c_stride, left[r]);
    store(c + r * c_stride + kLanes, right[r]);
  }
}

// c[rows][columns] += a[rows][depth] b[depth][columns]; columns are a multiple of 32.
inline void gemm(std::size_t rows, std::size_t columns, std::size_t depth, const float* a,
                 std::size_t a_stride, const float* b, std::size_t b_stride, float* c,
                 std::size_t c_stride) {
  for (std::size_t column = 0; column < columns; column += 2 * kLanes) {
    std::size_t row = 0;
    for (; row + kGemmRows <= rows; row += kGemmRows) {
      gemm_rows<kGemmRows>(depth, a + row * a_stride, a_stride, b + column, b_stride,
                           c + row * c_stride + column, c_stride);
    }
    for (; row < rows; ++row) {
      gemm_rows<1>(depth, a + row * a_stride, a_stride, b + column, b_stride,
                   c + row * c_stride + column, c_stride);
    }
  }
}

}  // namespace OKIBI_ISA
