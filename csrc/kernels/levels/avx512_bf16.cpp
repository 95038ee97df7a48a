// The kernels in AVX-512 with BF16, bfloat16 activations.
#define OKIBI_ISA okibi_avx512_bf16
#define OKIBI_BF16_ACT

#include "../bf16_attention.h"
#include "../bf16_linear.h"
#include "table.h"

namespace OKIBI_ISA {

inline void attention(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                      void* memory) {
  const bool is_few = task.num_tokens * call.heads.group() <= kFewAttentionRows;
  const bool is_narrow = call.pages.type == okibi::KVType::kBf16 && call.heads.head_dim % 32 == 0;
  is_few && is_narrow ? attend_few(call, task, memory) : float_attention(call, task, memory);
}

constexpr okibi::KernelSet kKernels =
    kernel_table(okibi::Level::kAvx512Bf16, attention, float_attention_scratch_bytes);

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::avx512_bf16_kernels() { return &OKIBI_ISA::kKernels; }
