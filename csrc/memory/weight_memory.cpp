#include "weight_memory.h"

#include <algorithm>

namespace okibi {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{64} << 20;
constexpr std::size_t kAlignment = 64;

}  // namespace

std::uint8_t* WeightMemory::take(std::size_t num_bytes) {
  const std::size_t rounded = (num_bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (chunks_.empty() || chunks_.back().size() - used_ < rounded) {
    chunks_.emplace_back(std::max(kChunkBytes, rounded));
    used_ = 0;
  }
  std::uint8_t* start = chunks_.back().data() + used_;
  used_ += rounded;
  return start;
}

}  // namespace okibi
