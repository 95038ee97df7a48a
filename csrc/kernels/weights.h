// A weight matrix in the order the kernels read it.
//
// Sixteen outputs make a panel, two panels a pair, thirty-two inputs a block. Tiles of a panel
// and a block lie one after another as [pair][block][panel of the pair]; outputs and inputs
// beyond the matrix are zero. The formats of a tile, with n the output's place in its panel and k
// the input's in its block:
//
//   F32   float[32][16]                      k, n
//   BF16  uint16[16][16][2]                  k / 2, n, k % 2: the order of AMX and of VDPBF16PS
//   Q4    uint32[4][16]                      word k / 8, n; code of k in bits 4 (k % 8 / 2) +
//                                            16 (k % 2); then scale[16] and minimum[16]
//   Q8    uint32[8][16]                      word k / 4, n; byte k % 4; then scale[16] for each
//                                            run of inputs that shares one
//
// A weight is code * scale + minimum. Scales and minima are halfs or floats, as is exact for the
// source.
#pragma once

#include <cstddef>
#include <cstdint>

namespace okibi {

constexpr std::size_t kPanelOutputs = 16;
constexpr std::size_t kPairOutputs = 2 * kPanelOutputs;
constexpr std::size_t kBlockInputs = 32;

enum class WeightFormat { kF32, kBf16, kQ4Half, kQ4Float, kQ8Half, kQ8Float };

constexpr std::size_t tile_bytes(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
      return 2048;
    case WeightFormat::kBf16:
      return 1024;
    case WeightFormat::kQ4Half:
      return 256 + 2 * 32;
    case WeightFormat::kQ4Float:
      return 256 + 2 * 64;
    case WeightFormat::kQ8Half:
      return 512 + 32;
    case WeightFormat::kQ8Float:
      return 512 + 2 * 64;
  }
  return 0;
}

// Does not own its tiles.
struct Weights {
  WeightFormat format;
  std::size_t num_outputs;
  std::size_t num_inputs;
  const std::uint8_t* tiles;

  std::size_t num_pairs() const { return (num_outputs + kPairOutputs - 1) / kPairOutputs; }
  std::size_t num_blocks() const { return (num_inputs + kBlockInputs - 1) / kBlockInputs; }
  const std::uint8_t* pair(std::size_t index) const {
    return tiles + index * num_blocks() * 2 * tile_bytes(format);
  }
};

}  // namespace okibi
