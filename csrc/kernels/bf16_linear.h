// Products of bfloat16 activations with packed weights; sums are float.
#pragma once

#include "bf16_gemm.h"

namespace OKIBI_ISA {

// Some rows of one call.
struct Bf16Rows {
  const std::uint16_t* x;
  std::size_t stride;
  Pairs at(std::size_t row, std::size_t k) const { return set1_pair(x + row * stride + k); }
};

// More chains of sums than one hide the latency of a dot product where rows are few.
template <std::size_t kRows>
constexpr std::size_t kChains = kRows == 1 ? 4 : 2;

// The dot products of kCount inputs from `first` of the tile `at` with each row.
template <typename Tile, std::size_t kRows, std::size_t kCount>
inline void dot_tile(const std::uint8_t* at, std::size_t first, const Bf16Rows& x, std::size_t k0,
                     Floats* sums) {
  Floats part[kRows][kChains<kRows>];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (Floats& chain : part[r]) chain = zero();
    part[r][0] = sums[r];
  }
#pragma GCC unroll 16
  for (std::size_t k = first; k < first + kCount; k += 2) {
    const Pairs codes = code_pairs<Tile>(at, k);
    for (std::size_t r = 0; r < kRows; ++r) {
      Floats& chain = part[r][k / 2 % kChains<kRows>];
      chain = dot(codes, x.at(r, k0 + k), chain);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    sums[r] = part[r][0];
    for (std::size_t chain = 1; chain < kChains<kRows>; ++chain) {
      sums[r] = sums[r] + part[r][chain];
    }
  }
}

// The products of one tile and kRows rows, added to `sums`.
template <typename Tile, std::size_t kRows>
inline void add_tile(const std::uint8_t* at, const Bf16Rows& x, std::size_t block,
                     const float* block_sums, std::size_t num_blocks, Floats* sums) {
  if constexpr (!Tile::kIsCoded) {
    dot_tile<Tile, kRows, 32>(at, 0, x, block * 32, sums);
  } else {
#pragma GCC unroll 2
    for (std::size_t run = 0; run < 32; run += Tile::kRun) {
      Floats codes[kRows];
      for (Floats& sum : codes) sum = zero();
      dot_tile<Tile, kRows, Tile::kRun>(at, run, x, block * 32, codes);
      const Floats scale = Tile::scale(at, run);
      for (std::size_t r = 0; r < kRows; ++r) sums[r] = fma(codes[r], scale, sums[r]);
    }
    if constexpr (Tile::kHasMinimum) {
      const Floats minimum = Tile::minimum(at);
      for (std::size_t r = 0; r < kRows; ++r) {
        sums[r] = fma(set1(block_sums[r * num_blocks + block]), minimum, sums[r]);
      }
    }
  }
}

// product float [kRows][32] of one pair.
template <typename Tile, std::size_t kRows>
inline void few_rows(const std::uint8_t* pair, std::size_t num_blocks, const Bf16Rows& x,
                     const float* block_sums, float* product) {
  Floats left[kRows], right[kRows];
  for (std::size_t r = 0; r < kRows; ++r) left[r] = right[r] = zero();
  for (std::size_t block = 0; block < num_blocks; ++block) {
    const std::uint8_t* at = pair + block * 2 * Tile::kBytes;
    add_tile<Tile, kRows>(at, x, block, block_sums, num_blocks, left);
    add_tile<Tile, kRows>(at + Tile::kBytes, x, block, block_sums, num_blocks, right);
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    store(product + r * kPair, left[r]);
    store(product + r * kPair + kLanes, right[r]);
  }
}

template <typename Tile>
inline void few_rows(std::size_t rows, const std::uint8_t* pair, std::size_t num_blocks,
                     const Bf16Rows& x, const float* block_sums, float* product) {
  switch (rows) {
    case 1:
      return few_rows<Tile, 1>(pair, num_blocks, x, block_sums, product);
    case 2:
      return few_rows<Tile, 2>(pair, num_blocks, x, block_sums, product);
    case 3:
      return few_rows<Tile, 3>(pair, num_blocks, x, block_sums, product);
    default:
      return few_rows<Tile, 4>(pair, num_blocks, x, block_sums, product);
  }
}

template <typename Tile>
inline void linear_few(const okibi::LinearCall& call, okibi::Rows pairs, okibi::Rows rows) {
  const std::size_t num_blocks = call.weights.num_blocks();
  const Bf16Rows x{static_cast<const std::uint16_t*>(call.x) + rows.begin * call.x_stride,
                   call.x_stride};
  float product[okibi::kFewRows * kPair];
  for (std::size_t pair = pairs.begin; pair < pairs.end; ++pair) {
    few_rows<Tile>(rows.count(), call.weights.pair(pair), num_blocks, x,
                   call.block_sums + rows.begin * num_blocks, product);
    finish(call, pair, rows, product);
  }
}

template <typename Tile>
inline void linear_many(const okibi::LinearCall& call, okibi::Rows pairs, okibi::Rows rows,
                        std::uint8_t* scratch) {
  const MatrixUnit unit;
  const std::size_t num_blocks = call.weights.num_blocks();
  const auto* x = static_cast<const std::uint16_t*>(call.x);
  alignas(64) float product[okibi::kRowPad * kPair];
  for (std::size_t pair = pairs.begin; pair < pairs.end; ++pair) {
    const std::uint8_t* tiles = unpack_pairs<Tile>(call.weights.pair(pair), num_blocks, scratch);
    for (std::size_t row = rows.begin; row < rows.end; row += okibi::kRowPad) {
      const std::size_t end = least(row + okibi::kRowPad, rows.end);
      unit.multiply(x + row * call.x_stride, call.x_stride, end - row, tiles, num_blocks, product);
      finish(call, pair, {row, end}, product);
    }
  }
}

inline void linear(const okibi::LinearCall& call, okibi::Rows pairs, okibi::Rows rows,
                   void* scratch) {
  with_tile(call.weights.format, [&](auto tile) {
    if (rows.count() <= okibi::kFewRows && call.block_sums != nullptr) {
      return linear_few<decltype(tile)>(call, pairs, rows);
    }
    linear_many<decltype(tile)>(call, pairs, rows, static_cast<std::uint8_t*>(scratch));
  });
}

inline std::size_t linear_scratch_bytes(std::size_t num_inputs) {
  return round_up(num_inputs, 32) * kPair * sizeof(std::uint16_t);
}

}  // namespace OKIBI_ISA
