#include "buffer.h"

#include <cstring>
#include <new>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace okibi {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::align_val_t alignment_of(std::size_t num_bytes) {
  return std::align_val_t(num_bytes >= kHugePage ? kHugePage : 64);
}

void ask_for_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::size_t num_bytes) {
#if defined(__linux__)
  madvise(data, num_bytes / kHugePage * kHugePage, MADV_HUGEPAGE);
#endif
}

}  // namespace

Buffer::Buffer(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0) return;
  data_ = static_cast<std::uint8_t*>(::operator new(num_bytes, alignment_of(num_bytes)));
  if (num_bytes >= kHugePage) ask_for_huge_pages(data_, num_bytes);
  std::memset(data_, 0, num_bytes);
}

Buffer::~Buffer() {
  if (data_ != nullptr) ::operator delete(data_, alignment_of(size_));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace okibi
