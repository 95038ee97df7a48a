// The kernels in AVX-512 with BF16 and AMX, bfloat16 activations.
#define OKIBI_ISA okibi_amx
#define OKIBI_BF16_ACT

#include "../attention.h"
#include "../bf16_linear.h"
#include "../elementwise.h"
#include "levels.h"

namespace OKIBI_ISA {

const okibi::KernelSet kKernels = {
    okibi::Level::kAmx,  sizeof(Act), kFloatAttentionRows,  embed,
    rms_norm,            sum_blocks,  linear,               position,
    attention,           merge,       linear_scratch_bytes, attention_scratch_bytes,
};

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::amx_kernels() { return &OKIBI_ISA::kKernels; }
