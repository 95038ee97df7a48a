// The kernels in AVX-512, float activations.
#define OKIBI_ISA okibi_avx512

#include "../attention.h"
#include "../float_linear.h"
#include "table.h"

namespace OKIBI_ISA {

constexpr okibi::KernelSet kKernels =
    kernel_table(okibi::Level::kAvx512, float_attention, float_attention_scratch_bytes);

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::avx512_kernels() { return &OKIBI_ISA::kKernels; }
