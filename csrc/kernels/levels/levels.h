// The table of each level, compiled with that level's instructions.
#pragma once

#include "../kernel_set.h"

namespace okibi {

const KernelSet* portable_kernels();
const KernelSet* avx2_kernels();
const KernelSet* avx512_kernels();
const KernelSet* avx512_bf16_kernels();
const KernelSet* amx_kernels();

}  // namespace okibi
