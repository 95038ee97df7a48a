// The kernels in AVX-512, float activations.
#define OKIBI_ISA okibi_avx512

#include "../attention.h"
#include "../elementwise.h"
#include "../float_linear.h"
#include "levels.h"

namespace OKIBI_ISA {

const okibi::KernelSet kKernels = {
    okibi::Level::kAvx512,
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

const okibi::KernelSet* okibi::avx512_kernels() { return &OKIBI_ISA::kKernels; }
