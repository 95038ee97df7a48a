// Scalar conversions between float and its 16-bit relatives.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace okibi {

static inline float float_from_bits(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof(value));
  return value;
}

static inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

static inline float bf16_to_float(std::uint16_t value) {
  return float_from_bits(static_cast<std::uint32_t>(value) << 16);
}

// Rounds to nearest even; NaN stays NaN.
static inline std::uint16_t float_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if (std::isnan(value)) return static_cast<std::uint16_t>((bits >> 16) | 0x40);
  return static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = (half >> 10) & 31;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 31) return float_from_bits(sign | 0x7f800000 | (fraction << 13));
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(fraction), -24);
    return sign ? -magnitude : magnitude;
  }
  return float_from_bits(sign | ((exponent + 112) << 23) | (fraction << 13));
}

}  // namespace okibi
