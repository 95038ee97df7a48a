// The kernels in AVX2, FMA and F16C, float activations.
#define OKIBI_ISA okibi_avx2

#include "../attention.h"
#include "../elementwise.h"
#include "../float_linear.h"
#include "levels.h"

namespace OKIBI_ISA {

const okibi::KernelSet kKernels = {
    okibi::Level::kAvx2,
    sizeof(Act),
    kAttentionRows,
    embed,
    rms_norm,
    sum_blocks,
    linear,
    position,
    float_attention,
    merge,
    choose,
    linear_scratch_bytes,
    float_attention_scratch_bytes,
};

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::avx2_kernels() { return &OKIBI_ISA::kKernels; }
