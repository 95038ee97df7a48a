// How pairs of inputs are read from a tile as bfloat16, in the order of AMX and of VDPBF16PS: lane
// n holds inputs k and k + 1 of the panel's output n.
#pragma once

#include <type_traits>

#include "tiles.h"

namespace OKIBI_ISA {

// Sixteen pairs of bfloat16.
struct Pairs {
  __m512i v;
};

inline Pairs load_pairs(const void* p) { return {_mm512_loadu_si512(p)}; }
inline void store_pairs(void* p, Pairs a) { _mm512_storeu_si512(p, a.v); }

inline Floats dot(Pairs a, Pairs b, Floats sum) {
  return {_mm512_dpbf16_ps(sum.v, (__m512bh)a.v, (__m512bh)b.v)};
}

// Both inputs of one pair, in all lanes.
inline Pairs set1_pair(const std::uint16_t* p) {
  int both;
  std::memcpy(&both, p, sizeof(both));
  return {_mm512_set1_epi32(both)};
}

// Lane n: first[n], then second[n].
inline Pairs interleave(Floats first, Floats second) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24,
                                         8, 23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return {_mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(second.v, first.v))};
}

// The codes of a quantised tile, exact as bfloat16, or the weights of another.
template <typename Tile>
inline Pairs code_pairs(const std::uint8_t* tile, std::size_t k) {
  if constexpr (Tile::kIsCoded) {
    return interleave(Tile::code(tile, k), Tile::code(tile, k + 1));
  } else {
    return interleave(Tile::weight(tile, k), Tile::weight(tile, k + 1));
  }
}

template <>
inline Pairs code_pairs<Bf16Tile>(const std::uint8_t* tile, std::size_t k) {
  return load_pairs(tile + k / 2 * 64);
}

// The nibbles of both halves of a word choose from a table of 0 to 15. A permutation looks at five
// bits of which the fifth is the next code's, so the table holds everything twice.
inline Pairs nibble_pairs(const std::uint8_t* codes, std::size_t k) {
  const __m512i values = _mm512_set_epi16(
      0x4170, 0x4160, 0x4150, 0x4140, 0x4130, 0x4120, 0x4110, 0x4100, 0x40e0, 0x40c0, 0x40a0,
      0x4080, 0x4040, 0x4000, 0x3f80, 0, 0x4170, 0x4160, 0x4150, 0x4140, 0x4130, 0x4120, 0x4110,
      0x4100, 0x40e0, 0x40c0, 0x40a0, 0x4080, 0x4040, 0x4000, 0x3f80, 0);
  const Words word = load_words(codes + k / 8 * 64);
  return {_mm512_permutexvar_epi16(shift_right(word, 4 * (k % 8 / 2)).v, values)};
}

template <>
inline Pairs code_pairs<Q4HalfTile>(const std::uint8_t* tile, std::size_t k) {
  return nibble_pairs(tile, k);
}

template <>
inline Pairs code_pairs<Q4FloatTile>(const std::uint8_t* tile, std::size_t k) {
  return nibble_pairs(tile, k);
}

// Weights, rounded to bfloat16 where they are not exact.
template <typename Tile>
inline Pairs weight_pairs(const std::uint8_t* tile, std::size_t k) {
  return interleave(Tile::weight(tile, k), Tile::weight(tile, k + 1));
}

// A pair of panels as bfloat16 tiles: [block][panel][16 pairs of inputs][16 outputs][2].
template <typename Tile>
inline const std::uint8_t* unpack_pairs(const std::uint8_t* pair, std::size_t num_blocks,
                                        std::uint8_t* scratch) {
  if constexpr (std::is_same_v<Tile, Bf16Tile>) return pair;
  for (std::size_t tile = 0; tile < 2 * num_blocks; ++tile) {
    const std::uint8_t* from = pair + tile * Tile::kBytes;
    std::uint8_t* to = scratch + tile * Bf16Tile::kBytes;
#pragma GCC unroll 16
    for (std::size_t k = 0; k < 32; k += 2) store_pairs(to + k * 32, weight_pairs<Tile>(from, k));
  }
  return scratch;
}

}  // namespace OKIBI_ISA
