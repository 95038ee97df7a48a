// The table of the kernels compiled for one level; the including file chooses the products that
// suit its activations by what it includes before.
#pragma once

#include "../elementwise.h"
#include "levels.h"

namespace OKIBI_ISA {

constexpr okibi::KernelSet kernel_table(okibi::Level level,
                                     decltype(okibi::KernelSet::attention) attention,
                                     decltype(okibi::KernelSet::attention_scratch_bytes) scratch) {
  return {level,      sizeof(Act), kAttentionRows, embed,  rms_norm,
          sum_blocks, linear,      position,       attention, merge,
          choose,     linear_scratch_bytes, scratch};
}

}  // namespace OKIBI_ISA
