// Memory that many matrices share: a small model's are less than a huge page each, and one that
// starts where the last one ended is found by the processor's prefetchers.
#pragma once

#include <vector>

#include "buffer.h"

namespace okibi {

class WeightMemory {
 public:
  WeightMemory() = default;
  WeightMemory(const WeightMemory&) = delete;
  WeightMemory& operator=(const WeightMemory&) = delete;

  // Zeroed, aligned for vectors, there as long as this object is. Throws std::bad_alloc.
  std::uint8_t* take(std::size_t num_bytes);

 private:
  std::vector<Buffer> chunks_;
  std::size_t used_ = 0;  // of the last chunk
};

}  // namespace okibi
