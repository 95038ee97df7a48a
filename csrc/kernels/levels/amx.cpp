// The kernels in AVX-512 with BF16 and AMX, bfloat16 activations.
#define OKIBI_ISA okibi_amx
#define OKIBI_BF16_ACT

#include "../amx_attention.h"
#include "../bf16_linear.h"
#include "table.h"

namespace OKIBI_ISA {

inline void attention(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                      void* memory) {
  const bool is_fit = call.pages.type == okibi::KVType::kBf16 && call.heads.head_dim % 32 == 0;
  if (!is_fit) return float_attention(call, task, memory);
  const bool is_few = task.num_tokens * call.heads.group() <= kFewAttentionRows;
  is_few ? attend_few(call, task, memory) : attend_many(call, task, memory);
}

inline std::size_t attention_scratch_bytes(std::size_t head_dim) {
  const std::size_t tiles = AmxScratch::bytes(head_dim);
  const std::size_t floats = float_attention_scratch_bytes(head_dim);
  return tiles > floats ? tiles : floats;
}

constexpr okibi::KernelSet kKernels =
    kernel_table(okibi::Level::kAmx, attention, attention_scratch_bytes);

}  // namespace OKIBI_ISA

const okibi::KernelSet* okibi::amx_kernels() { return &OKIBI_ISA::kKernels; }
