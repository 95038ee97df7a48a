// How lanes of one panel are read from a tile; weights.h has the formats.
#pragma once

#include "vec/vec.h"
#include "weights.h"

namespace OKIBI_ISA {

inline Floats load_scale(const float* p) { return load(p); }
inline Floats load_scale(const std::uint16_t* p) { return load_half(p); }

struct F32Tile {
  static constexpr bool kIsCoded = false;
  static constexpr std::size_t kBytes = 2048;

  static Floats weight(const std::uint8_t* tile, std::size_t k) {
    return load(reinterpret_cast<const float*>(tile) + k * kLanes);
  }
};

struct Bf16Tile {
  static constexpr bool kIsCoded = false;
  static constexpr std::size_t kBytes = 1024;

  static Floats weight(const std::uint8_t* tile, std::size_t k) {
    const Words both = load_words(tile + k / 2 * 64);
    return as_floats(k % 2 == 0 ? shift_left(both, 16) : both & 0xffff0000u);
  }
};

template <typename Scale>
struct Q4Tile {
  static constexpr bool kIsCoded = true;
  static constexpr bool kHasMinimum = true;
  static constexpr std::size_t kRun = 32;
  static constexpr std::size_t kBytes = 256 + 2 * kLanes * sizeof(Scale);

  static Floats code(const std::uint8_t* tile, std::size_t k) {
    const unsigned bit = static_cast<unsigned>(4 * (k % 8 / 2) + 16 * (k % 2));
    return nibble(shift_right(load_words(tile + k / 8 * 64), bit));
  }
  static Floats scale(const std::uint8_t* tile, std::size_t) {
    return load_scale(reinterpret_cast<const Scale*>(tile + 256));
  }
  static Floats minimum(const std::uint8_t* tile) {
    return load_scale(reinterpret_cast<const Scale*>(tile + 256) + kLanes);
  }
  static Floats weight(const std::uint8_t* tile, std::size_t k) {
    return fma(code(tile, k), scale(tile, k), minimum(tile));
  }
};

template <typename Scale, std::size_t kRunInputs>
struct Q8Tile {
  static constexpr bool kIsCoded = true;
  static constexpr bool kHasMinimum = false;
  static constexpr std::size_t kRun = kRunInputs;
  static constexpr std::size_t kBytes = 512 + 32 / kRun * kLanes * sizeof(Scale);

  static Floats code(const std::uint8_t* tile, std::size_t k) {
    const unsigned above = static_cast<unsigned>(24 - 8 * (k % 4));
    return to_floats(shift_right_signed(shift_left(load_words(tile + k / 4 * 64), above), 24));
  }
  static Floats scale(const std::uint8_t* tile, std::size_t k) {
    return load_scale(reinterpret_cast<const Scale*>(tile + 512) + k / kRun * kLanes);
  }
  static Floats weight(const std::uint8_t* tile, std::size_t k) {
    return code(tile, k) * scale(tile, k);
  }
};

using Q4HalfTile = Q4Tile<std::uint16_t>;
using Q4FloatTile = Q4Tile<float>;
using Q8HalfTile = Q8Tile<std::uint16_t, 32>;
using Q8FloatTile = Q8Tile<float, 16>;

// Calls f with the tile type of a format.
template <typename F>
inline void with_tile(okibi::WeightFormat format, const F& f) {
  switch (format) {
    case okibi::WeightFormat::kF32:
      return f(F32Tile{});
    case okibi::WeightFormat::kBf16:
      return f(Bf16Tile{});
    case okibi::WeightFormat::kQ4Half:
      return f(Q4HalfTile{});
    case okibi::WeightFormat::kQ4Float:
      return f(Q4FloatTile{});
    case okibi::WeightFormat::kQ8Half:
      return f(Q8HalfTile{});
    case okibi::WeightFormat::kQ8Float:
      return f(Q8FloatTile{});
  }
}

}  // namespace OKIBI_ISA
