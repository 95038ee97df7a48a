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

std::uint8_t* new_small(std::size_t num_bytes) {
  void* data = ::operator new(num_bytes, std::align_val_t(64));
  return static_cast<std::uint8_t*>(std::memset(data, 0, num_bytes));
}

#if defined(__linux__)

bool is_large(std::size_t num_bytes) { return num_bytes >= kHugePage; }

std::size_t whole_pages(std::size_t num_bytes) {
  return (num_bytes + kHugePage - 1) / kHugePage * kHugePage;
}

// Whole huge pages; what is mapped around them is given back.
std::uint8_t* map_large(std::size_t num_bytes) {
  const std::size_t mapped = whole_pages(num_bytes) + kHugePage;
  if (mapped < num_bytes) throw std::bad_alloc();
  void* start = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) throw std::bad_alloc();
  const std::size_t front = kHugePage - reinterpret_cast<std::uintptr_t>(start) % kHugePage;
  auto* data = static_cast<std::uint8_t*>(start) + front;
  munmap(start, front);
  if (front < kHugePage) munmap(data + whole_pages(num_bytes), kHugePage - front);
  madvise(data, whole_pages(num_bytes), MADV_HUGEPAGE);
  return data;
}

void unmap_large(std::uint8_t* data, std::size_t num_bytes) {
  munmap(data, whole_pages(num_bytes));
}

#else

bool is_large(std::size_t) { return false; }
std::uint8_t* map_large(std::size_t num_bytes) { return new_small(num_bytes); }
void unmap_large(std::uint8_t*, std::size_t) {}

#endif

}  // namespace

Buffer::Buffer(std::size_t num_bytes) : size_(num_bytes) {
  if (num_bytes == 0) return;
  data_ = is_large(num_bytes) ? map_large(num_bytes) : new_small(num_bytes);
}

Buffer::~Buffer() {
  is_large(size_) ? unmap_large(data_, size_) : ::operator delete(data_, std::align_val_t(64));
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

}  // namespace okibi
