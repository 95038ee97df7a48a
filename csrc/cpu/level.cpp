#include "level.h"

#include <cstdint>
#include <stdexcept>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace okibi {
namespace {

constexpr Level kLevels[] = {Level::kPortable, Level::kAvx2, Level::kAvx512, Level::kAvx512Bf16,
                             Level::kAmx};

#if defined(__x86_64__)

struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// The register states that the operating system saves and restores.
std::uint64_t enabled_states() {
  if (!(cpuid(1, 0).c >> 27 & 1)) return 0;
  std::uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<std::uint64_t>(high) << 32 | low;
}

bool all_set(std::uint64_t word, std::initializer_list<unsigned> bits) {
  for (unsigned bit : bits) {
    if (!(word >> bit & 1)) return false;
  }
  return true;
}

bool request_amx() {
#if defined(__linux__)
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

bool supports(Level level) {
  const std::uint64_t states = enabled_states();
  const Registers basic = cpuid(1, 0), extended = cpuid(7, 0), more = cpuid(7, 1);
  switch (level) {
    case Level::kPortable:
      return true;
    case Level::kAvx2:  // FMA, F16C; AVX2
      return all_set(states, {1, 2}) && all_set(basic.c, {12, 29}) && all_set(extended.b, {5});
    case Level::kAvx512:  // F, DQ, BW, VL
      return all_set(states, {5, 6, 7}) && all_set(extended.b, {16, 17, 30, 31});
    case Level::kAvx512Bf16:
      return all_set(more.a, {5});
    case Level::kAmx:  // BF16, TILE
      return all_set(states, {17, 18}) && all_set(extended.d, {22, 24}) && request_amx();
  }
  return false;
}

#else

bool supports(Level level) { return level == Level::kPortable; }

#endif

}  // namespace

std::vector<Level> supported_levels() {
  std::vector<Level> levels;
  for (Level level : kLevels) {
    if (!supports(level)) break;
    levels.push_back(level);
  }
  return levels;
}

const char* level_name(Level level) {
  switch (level) {
    case Level::kPortable:
      return "portable";
    case Level::kAvx2:
      return "avx2";
    case Level::kAvx512:
      return "avx512";
    case Level::kAvx512Bf16:
      return "avx512_bf16";
    case Level::kAmx:
      return "amx";
  }
  return "";
}

Level level_named(const std::string& name) {
  for (Level level : kLevels) {
    if (name == level_name(level)) return level;
  }
  throw std::invalid_argument("no kernels are called '" + name + "'");
}

}  // namespace okibi
