// Products of many rows of bfloat16 with a pair of panels of bfloat16 tiles: by AMX where the level
// has it, else by VDPBF16PS.
#pragma once

#include "bf16_tiles.h"
#include "kernel_set.h"
#include "linear.h"

namespace OKIBI_ISA {

#if defined(__AMX_BF16__)

// Eight tiles of sixteen rows of 64 bytes: 0 to 3 are sums, 4 and 5 rows, 6 and 7 weights.
class MatrixUnit {
 public:
  MatrixUnit() {
    alignas(64) std::uint8_t config[64] = {};
    config[0] = 1;
    for (int tile = 0; tile < 8; ++tile) {
      config[16 + 2 * tile] = 64;
      config[48 + tile] = 16;
    }
    // GCC 12 does not see that the instruction reads the whole array.
    asm volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(config);
  }
  ~MatrixUnit() { _tile_release(); }
  MatrixUnit(const MatrixUnit&) = delete;
  MatrixUnit& operator=(const MatrixUnit&) = delete;

  // product float [rows][32] of up to 32 rows; those up to the next sixteen are read too.
  void multiply(const std::uint16_t* x, std::size_t x_stride, std::size_t rows,
                const std::uint8_t* tiles, std::size_t num_blocks, float* product) const {
    rows > 16 ? multiply_two(x, x_stride, tiles, num_blocks, product)
              : multiply_one(x, x_stride, tiles, num_blocks, product);
  }

 private:
  static void multiply_two(const std::uint16_t* x, std::size_t x_stride, const std::uint8_t* tiles,
                           std::size_t num_blocks, float* product) {
    const std::uint16_t* lower = x + 16 * x_stride;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t block = 0; block < num_blocks; ++block) {
      _tile_loadd(6, tiles + block * 2048, 64);
      _tile_loadd(4, x + block * 32, x_stride * 2);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, tiles + block * 2048 + 1024, 64);
      _tile_dpbf16ps(1, 4, 7);
      _tile_loadd(5, lower + block * 32, x_stride * 2);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, product, 128);
    _tile_stored(1, product + 16, 128);
    _tile_stored(2, product + 16 * kPair, 128);
    _tile_stored(3, product + 16 * kPair + 16, 128);
  }

  // Two chains of sums a panel hide the latency of a product.
  static void multiply_one(const std::uint16_t* x, std::size_t x_stride, const std::uint8_t* tiles,
                           std::size_t num_blocks, float* product) {
    _tile_zero(0);
    _tile_zero(1);
    for (std::size_t block = 0; block < num_blocks; ++block) {
      _tile_loadd(4, x + block * 32, x_stride * 2);
      _tile_loadd(6, tiles + block * 2048, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_loadd(7, tiles + block * 2048 + 1024, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    _tile_stored(0, product, 128);
    _tile_stored(1, product + 16, 128);
  }
};

#else

class MatrixUnit {
 public:
  // product float [rows][32] of up to 32 rows.
  void multiply(const std::uint16_t* x, std::size_t x_stride, std::size_t rows,
                const std::uint8_t* tiles, std::size_t num_blocks, float* product) const {
    std::size_t row = 0;
    for (; row + 8 <= rows; row += 8) {
      multiply_rows<8>(x + row * x_stride, x_stride, tiles, num_blocks, product + row * kPair);
    }
    for (; row < rows; ++row) {
      multiply_rows<1>(x + row * x_stride, x_stride, tiles, num_blocks, product + row * kPair);
    }
  }

 private:
  template <std::size_t kRows>
  static void multiply_rows(const std::uint16_t* x, std::size_t x_stride,
                            const std::uint8_t* tiles, std::size_t num_blocks, float* product) {
    Floats left[kRows], right[kRows];
    for (std::size_t r = 0; r < kRows; ++r) left[r] = right[r] = zero();
    for (std::size_t k = 0; k < num_blocks * 32; k += 2) {
      const std::uint8_t* at = tiles + k / 32 * 2048 + k % 32 * 32;
      const Pairs b_left = load_pairs(at), b_right = load_pairs(at + 1024);
      for (std::size_t r = 0; r < kRows; ++r) {
        const Pairs factor = set1_pair(x + r * x_stride + k);
        left[r] = dot(b_left, factor, left[r]);
        right[r] = dot(b_right, factor, right[r]);
      }
    }
    for (std::size_t r = 0; r < kRows; ++r) {
      store(product + r * kPair, left[r]);
      store(product + r * kPair + kLanes, right[r]);
    }
  }
};

#endif

}  // namespace OKIBI_ISA
