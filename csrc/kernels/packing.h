// From rows of a checkpoint to the tiles of weights.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "weights.h"

namespace okibi {

// How a checkpoint stores a row: F32, BF16, or the blocks of GGUF.
enum class SourceFormat { kF32, kBf16, kQ8_0, kQ4_0, kQ4_1, kQ4_K, kQ6_K };

// By the names of PyTorch and GGUF in upper case. Throws std::invalid_argument for others.
SourceFormat source_named(const std::string& name);

// The format in which the kernels keep a source, without loss.
WeightFormat kept_as(SourceFormat source);

// Bytes of a row of num_inputs values. Throws std::invalid_argument if they are no whole blocks.
std::size_t row_bytes(SourceFormat source, std::size_t num_inputs);

// Writes one source row as an output of the matrix whose tiles start at `tiles`; they were zero.
void pack_row(SourceFormat source, const std::uint8_t* row, std::size_t num_inputs,
              std::size_t output, std::uint8_t* tiles);

}  // namespace okibi
