// What all products share: the epilogues, and sums of the inputs of a block.
#pragma once

#include "act.h"
#include "kernel_set.h"

namespace OKIBI_ISA {

constexpr std::size_t kPair = okibi::kPairOutputs;

inline void sum_blocks(const void* x, std::size_t x_stride, std::size_t num_inputs,
                       okibi::Rows rows, float* block_sums) {
  const std::size_t num_blocks = (num_inputs + 31) / 32;
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    const Act* at = static_cast<const Act*>(x) + row * x_stride;
    for (std::size_t block = 0; block < num_blocks; ++block, at += 32) {
      block_sums[row * num_blocks + block] = sum(load_wide(at) + load_wide(at + kLanes));
    }
  }
}

inline void swiglu(const okibi::LinearCall& call, std::size_t pair, okibi::Rows rows,
                   const float* product) {
  const std::size_t first = pair * kLanes;
  const std::size_t inner = call.weights.num_outputs / 2;
  for (std::size_t row = rows.begin; row < rows.end; ++row, product += kPair) {
    Floats gate = load(product), up = load(product + kLanes);
    if (call.bias != nullptr) {
      gate = gate + load(call.bias + pair * kPair);
      up = up + load(call.bias + pair * kPair + kLanes);
    }
    Act* out = static_cast<Act*>(call.out) + row * call.out_stride;
    store_row(out, first, inner, silu(gate) * up);
  }
}

// Ends the product of a pair and some rows: float [row][32].
inline void finish(const okibi::LinearCall& call, std::size_t pair, okibi::Rows rows,
                   const float* product) {
  if (call.epilogue == okibi::Epilogue::kSwiGlu) return swiglu(call, pair, rows, product);
  const std::size_t width = call.weights.num_outputs;
  const bool adds = call.epilogue == okibi::Epilogue::kAdd;
  for (std::size_t row = rows.begin; row < rows.end; ++row, product += kPair) {
    float* out = static_cast<float*>(call.out) + row * call.out_stride;
    for (std::size_t lane = 0; lane < kPair; lane += kLanes) {
      const std::size_t at = pair * kPair + lane;
      if (at >= width) break;
      Floats value = load(product + lane);
      if (call.bias != nullptr) value = value + load_row(call.bias, at, width);
      if (adds) value = value + load_row(out, at, width);
      store_row(out, at, width, value);
    }
  }
}

}  // namespace OKIBI_ISA
