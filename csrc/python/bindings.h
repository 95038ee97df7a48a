// Parts of the module, and the arrays they take.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "../kernels/kernel_set.h"

namespace okibi {

namespace nb = nanobind;

template <typename T, std::size_t kDims>
using Array = nb::ndarray<T, nb::ndim<kDims>, nb::c_contig, nb::device::cpu>;

void bind_weights(nb::module_& m);
void bind_kernels(nb::module_& m);
void bind_decoder(nb::module_& m);

// Throws std::invalid_argument if this build or machine has no such kernels.
inline const KernelSet& kernels_named(const std::string& level) {
  const KernelSet* kernels = kernels_of(level_named(level));
  if (kernels == nullptr) {
    throw std::invalid_argument("this machine cannot run the kernels '" + level + "'");
  }
  return *kernels;
}

inline void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

inline KVType kv_type_named(const std::string& name) {
  if (name == "float32") return KVType::kF32;
  if (name == "bfloat16") return KVType::kBf16;
  throw std::invalid_argument("the kernels do not keep keys and values as " + name);
}

inline std::size_t kv_bytes(KVType type) { return type == KVType::kF32 ? 4 : 2; }

}  // namespace okibi
