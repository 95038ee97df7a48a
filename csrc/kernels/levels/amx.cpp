// The kernels in AVX-512, float activations.
#define OKIBI_ISA okibi_amx

#include "../attention.h"
#include "../elementwise.h"
#include "../float_linear.h"
#include "levels.h"

namespace OKIBI_ISA {

const okibi::KernelSet kKernels = {
    okibi::Level::kAmx, sizeof(Act),
    kFloatAttentionRows,     embed,
    rms_norm,                sum_blocks,
    linear,                  position,
    attention,               merge,
    linear_scratch_bytes,    attention_scratch_bytes,
};

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::amx_kernels() { return &OKIBI_ISA::kKernels; }
