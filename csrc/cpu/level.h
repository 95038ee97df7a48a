// Which of the kernels' instruction sets this machine can run.
#pragma once

#include <string>
#include <vector>

namespace okibi {

enum class Level { kPortable, kAvx2, kAvx512, kAvx512Bf16, kAmx };

// Every level the machine can run, the slowest first. Asks the kernel for the use of AMX tiles.
std::vector<Level> supported_levels();

const char* level_name(Level level);

// Throws std::invalid_argument if no level has the name.
Level level_named(const std::string& name);

}  // namespace okibi
