// A weight matrix, filled row by row.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "../kernels/packing.h"
#include "weight_memory.h"

namespace okibi {

class PackedMatrix {
 public:
  // `source` names how its rows are stored, as in packing.h. Throws std::invalid_argument.
  PackedMatrix(std::shared_ptr<WeightMemory> memory, const std::string& source,
               std::size_t num_outputs, std::size_t num_inputs)
      : memory_(std::move(memory)),
        source_(source_named(source)),
        row_bytes_(okibi::row_bytes(source_, num_inputs)),
        weights_{kept_as(source_), num_outputs, num_inputs, nullptr},
        num_bytes_(weights_.num_pairs() * weights_.num_blocks() * 2 * tile_bytes(weights_.format)),
        tiles_(memory_->take(num_bytes_)) {
    weights_.tiles = tiles_;
  }

  // Throws std::out_of_range if the matrix has no such output.
  void write_row(std::size_t output, const std::uint8_t* row) {
    if (output >= weights_.num_outputs) throw std::out_of_range("the matrix has no such output");
    pack_row(source_, row, weights_.num_inputs, output, tiles_);
  }

  const Weights& weights() const { return weights_; }
  std::size_t row_bytes() const { return row_bytes_; }
  std::size_t num_bytes() const { return num_bytes_; }

 private:
  std::shared_ptr<WeightMemory> memory_;
  SourceFormat source_;
  std::size_t row_bytes_;
  Weights weights_;
  std::size_t num_bytes_;
  std::uint8_t* tiles_;
};

}  // namespace okibi
