// The kernels in plain C++, float activations.
#define OKIBI_ISA okibi_portable

#include "../attention.h"
#include "../float_linear.h"
#include "table.h"

namespace OKIBI_ISA {

constexpr okibi::KernelSet kKernels =
    kernel_table(okibi::Level::kPortable, float_attention, float_attention_scratch_bytes);

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::portable_kernels() { return &OKIBI_ISA::kKernels; }
