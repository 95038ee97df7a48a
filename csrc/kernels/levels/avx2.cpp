// The kernels in AVX2, FMA and F16C, float activations.
#define OKIBI_ISA okibi_avx2

#include "../attention.h"
#include "../float_linear.h"
#include "table.h"

namespace OKIBI_ISA {

constexpr okibi::KernelSet kKernels =
    kernel_table(okibi::Level::kAvx2, float_attention, float_attention_scratch_bytes);

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::avx2_kernels() { return &OKIBI_ISA::kKernels; }
