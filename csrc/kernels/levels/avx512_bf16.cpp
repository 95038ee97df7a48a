// The kernels in AVX-512, float activations.
#define OKIBI_ISA okibi_avx512_bf16

#include "../attention.h"
#include "../elementwise.h"
#include "../float_linear.h"
#include "levels.h"

namespace OKIBI_ISA {

const okibi::KernelSet kKernels = {
    okibi::Level::kAvx512Bf16, sizeof(Act),
    kFloatAttentionRows,     embed,
    rms_norm,                sum_blocks,
    linear,                  position,
    attention,               merge,
    linear_scratch_bytes,    attention_scratch_bytes,
};

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::avx512_bf16_kernels() { return &OKIBI_ISA::kKernels; }
