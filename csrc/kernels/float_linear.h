// Products of float activations with packed weights.
#pragma once

#include "float_gemm.h"
#include "linear.h"
#include "tiles.h"

namespace OKIBI_ISA {

// Rows of one call, read one number at a time.
struct FloatRows {
  const float* x;
  std::size_t stride;
  float at(std::size_t row, std::size_t k) const { return x[row * stride + k]; }
};

// More chains of sums than one hide the latency of a multiplication where rows are few.
template <std::size_t kRows>
constexpr std::size_t kChains = kRows == 1 ? 4 : 2;

// sums[row] += x[row] over the inputs [first, first + kCount) of the tile `at`, coded or not.
template <typename Tile, std::size_t kRows, std::size_t kCount>
inline void add_products(const std::uint8_t* at, std::size_t first, const FloatRows& x,
                         std::size_t k0, Floats* sums) {
  Floats part[kRows][kChains<kRows>];
  for (std::size_t r = 0; r < kRows; ++r) {
    for (Floats& chain : part[r]) chain = zero();
  }
#pragma GCC unroll 32
  for (std::size_t k = 0; k < kCount; ++k) {
    Floats lanes;
    if constexpr (Tile::kIsCoded) {
      lanes = Tile::code(at, first + k);
    } else {
      lanes = Tile::weight(at, first + k);
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      Floats& chain = part[r][k % kChains<kRows>];
      chain = fma(set1(x.at(r, k0 + first + k)), lanes, chain);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    for (std::size_t chain = 0; chain < kChains<kRows>; ++chain) {
      sums[r] = sums[r] + part[r][chain];
    }
  }
}

// The products of one tile and kRows rows, added to `sums`.
template <typename Tile, std::size_t kRows>
inline void add_tile(const std::uint8_t* at, const FloatRows& x, std::size_t block,
                     const float* block_sums, std::size_t num_blocks, Floats* sums) {
  if constexpr (!Tile::kIsCoded) {
    add_products<Tile, kRows, 32>(at, 0, x, block * 32, sums);
  } else {
#pragma GCC unroll 2
    for (std::size_t run = 0; run < 32; run += Tile::kRun) {
      Floats codes[kRows];
      for (Floats& sum : codes) sum = zero();
      add_products<Tile, kRows, Tile::kRun>(at, run, x, block * 32, codes);
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
inline void few_rows(const std::uint8_t* pair, std::size_t num_blocks, const FloatRows& x,
                     const float* block_sums, float* product) {
  Floats sums[2][kRows];
  for (auto& panel : sums) {
    for (Floats& sum : panel) sum = zero();
  }
  for (std::size_t block = 0; block < num_blocks; ++block) {
    for (std::size_t panel = 0; panel < 2; ++panel) {
      const std::uint8_t* at = pair + (block * 2 + panel) * Tile::kBytes;
      add_tile<Tile, kRows>(at, x, block, block_sums, num_blocks, sums[panel]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    store(product + r * kPair, sums[0][r]);
    store(product + r * kPair + kLanes, sums[1][r]);
  }
}

template <typename Tile>
inline void few_rows(std::size_t rows, const std::uint8_t* pair, std::size_t num_blocks,
                     const FloatRows& x, const float* block_sums, float* product) {
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

// float [inputs][32] of one pair.
template <typename Tile>
inline void unpack(const std::uint8_t* pair, std::size_t num_blocks, float* out) {
  for (std::size_t block = 0; block < num_blocks; ++block, out += 32 * kPair) {
    for (std::size_t panel = 0; panel < 2; ++panel) {
      const std::uint8_t* at = pair + (block * 2 + panel) * Tile::kBytes;
#pragma GCC unroll 32
      for (std::size_t k = 0; k < 32; ++k) {
        store(out + k * kPair + panel * kLanes, Tile::weight(at, k));
      }
    }
  }
}

template <typename Tile>
inline void linear_pair(const okibi::LinearCall& call, std::size_t pair, okibi::Rows rows,
                        float* scratch) {
  const std::uint8_t* tiles = call.weights.pair(pair);
  const std::size_t num_blocks = call.weights.num_blocks();
  const float* x = static_cast<const float*>(call.x);
  float product[okibi::kRowPad * kPair];
  if (rows.count() <= okibi::kFewRows && call.block_sums != nullptr) {
    const FloatRows few{x + rows.begin * call.x_stride, call.x_stride};
    few_rows<Tile>(rows.count(), tiles, num_blocks, few, call.block_sums + rows.begin * num_blocks,
                   product);
    return finish(call, pair, rows, product);
  }
  unpack<Tile>(tiles, num_blocks, scratch);
  for (std::size_t row = rows.begin; row < rows.end; row += okibi::kRowPad) {
    const std::size_t end = least(row + okibi::kRowPad, rows.end);
    std::memset(product, 0, sizeof(product));
    gemm(end - row, kPair, num_blocks * 32, x + row * call.x_stride, call.x_stride, scratch, kPair,
         product, kPair);
    finish(call, pair, {row, end}, product);
  }
}

inline void linear(const okibi::LinearCall& call, okibi::Rows pairs, okibi::Rows rows,
                   void* scratch) {
  with_tile(call.weights.format, [&](auto tile) {
    for (std::size_t pair = pairs.begin; pair < pairs.end; ++pair) {
      linear_pair<decltype(tile)>(call, pair, rows, static_cast<float*>(scratch));
    }
  });
}

inline std::size_t linear_scratch_bytes(std::size_t num_inputs) {
  return round_up(num_inputs, 32) * kPair * sizeof(float);
}

}  // namespace OKIBI_ISA
