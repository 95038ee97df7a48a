#include "kernel_set.h"

#include "levels/levels.h"

namespace okibi {
namespace {

const KernelSet* built(Level level) {
  switch (level) {
    case Level::kPortable:
      return portable_kernels();
#if defined(OKIBI_X86)
    case Level::kAvx2:
      return avx2_kernels();
    case Level::kAvx512:
      return avx512_kernels();
    case Level::kAvx512Bf16:
      return avx512_bf16_kernels();
    case Level::kAmx:
      return amx_kernels();
#endif
    default:
      return nullptr;
  }
}

}  // namespace

const KernelSet* kernels_of(Level level) {
  for (Level supported : supported_levels()) {
    if (supported == level) return built(level);
  }
  return nullptr;
}

}  // namespace okibi
