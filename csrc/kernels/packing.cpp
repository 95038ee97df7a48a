#include "packing.h"

#include <cstring>
#include <stdexcept>

#include "bfloat16.h"

namespace okibi {
namespace {

// Thirty-two inputs of one row.
struct Block {
  std::int8_t codes[kBlockInputs];
  float scales[2];  // of the first and of the last sixteen inputs
  float minimum;
};

template <typename T>
T read(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

float read_half(const std::uint8_t* at) { return half_to_float(read<std::uint16_t>(at)); }

// The low nibbles are the first sixteen values, the high ones the last sixteen.
void read_nibbles(const std::uint8_t* at, Block* block) {
  for (std::size_t i = 0; i < 16; ++i) {
    block->codes[i] = static_cast<std::int8_t>(at[i] & 15);
    block->codes[i + 16] = static_cast<std::int8_t>(at[i] >> 4);
  }
}

Block read_q4_0(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* at = row + index * 18;
  Block block;
  read_nibbles(at + 2, &block);
  block.scales[0] = block.scales[1] = read_half(at);
  block.minimum = -8.0f * block.scales[0];
  return block;
}

Block read_q4_1(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* at = row + index * 20;
  Block block;
  read_nibbles(at + 4, &block);
  block.scales[0] = block.scales[1] = read_half(at);
  block.minimum = read_half(at + 2);
  return block;
}

Block read_q8_0(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* at = row + index * 34;
  Block block;
  std::memcpy(block.codes, at + 2, kBlockInputs);
  block.scales[0] = block.scales[1] = read_half(at);
  block.minimum = 0.0f;
  return block;
}

// A super-block of 256: two halfs, eight pairs of six-bit scale and minimum in twelve bytes, then
// 128 bytes whose low nibbles are one block and whose high nibbles the next, 32 bytes at a time.
Block read_q4_k(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* at = row + index / 8 * 144;
  const std::uint8_t* packed = at + 4;
  const std::size_t sub = index % 8;
  unsigned scale, minimum;
  if (sub < 4) {
    scale = packed[sub] & 63;
    minimum = packed[sub + 4] & 63;
  } else {
    scale = (packed[sub + 4] & 15) | (packed[sub - 4] >> 6) << 4;
    minimum = (packed[sub + 4] >> 4) | (packed[sub] >> 6) << 4;
  }
  const std::uint8_t* codes = at + 16 + sub / 2 * 32;
  Block block;
  for (std::size_t i = 0; i < kBlockInputs; ++i) {
    block.codes[i] = static_cast<std::int8_t>(sub % 2 == 0 ? codes[i] & 15 : codes[i] >> 4);
  }
  block.scales[0] = block.scales[1] = read_half(at) * static_cast<float>(scale);
  block.minimum = -read_half(at + 2) * static_cast<float>(minimum);
  return block;
}

// A super-block of 256: 128 bytes of low nibbles, 64 of high bit pairs, a signed scale for every
// sixteen values, one half. Each half of it holds four blocks side by side.
Block read_q6_k(const std::uint8_t* row, std::size_t index) {
  const std::uint8_t* at = row + index / 8 * 210;
  const std::size_t half = index % 8 / 4, quarter = index % 4;
  const std::uint8_t* low = at + half * 64 + quarter % 2 * 32;
  const std::uint8_t* high = at + 128 + half * 32;
  const auto* scales = reinterpret_cast<const std::int8_t*>(at + 192) + index % 8 * 2;
  Block block;
  for (std::size_t i = 0; i < kBlockInputs; ++i) {
    const int four = quarter < 2 ? low[i] & 15 : low[i] >> 4;
    const int two = high[i] >> (2 * quarter) & 3;
    block.codes[i] = static_cast<std::int8_t>((four | two << 4) - 32);
  }
  const float scale = read_half(at + 208);
  block.scales[0] = scale * static_cast<float>(scales[0]);
  block.scales[1] = scale * static_cast<float>(scales[1]);
  block.minimum = 0.0f;
  return block;
}

Block read_block(SourceFormat source, const std::uint8_t* row, std::size_t index) {
  switch (source) {
    case SourceFormat::kQ4_0:
      return read_q4_0(row, index);
    case SourceFormat::kQ4_1:
      return read_q4_1(row, index);
    case SourceFormat::kQ8_0:
      return read_q8_0(row, index);
    case SourceFormat::kQ4_K:
      return read_q4_k(row, index);
    default:
      return read_q6_k(row, index);
  }
}

// Only for values that a half holds exactly, as those of the source do, or for -8 times one.
std::uint16_t float_to_half(float value) {
  const std::uint32_t bits = bits_of(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000);
  const float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) return sign | 0x7c00;
  if (magnitude < 6.103515625e-5f) {
    return sign | static_cast<std::uint16_t>(std::lrint(std::ldexp(magnitude, 24)));
  }
  return sign | static_cast<std::uint16_t>((bits_of(magnitude) - (112u << 23)) >> 13);
}

class Tile {
 public:
  Tile(WeightFormat format, std::uint8_t* tile, std::size_t lane)
      : format_(format), tile_(tile), lane_(lane) {}

  void put_word(std::size_t index, std::uint32_t word) {
    std::memcpy(tile_ + index * 64 + lane_ * 4, &word, 4);
  }

  void put_scale(std::size_t codes_bytes, std::size_t index, float value) {
    if (format_ == WeightFormat::kQ4Half || format_ == WeightFormat::kQ8Half) {
      const std::uint16_t half = float_to_half(value);
      std::memcpy(tile_ + codes_bytes + index * 32 + lane_ * 2, &half, 2);
    } else {
      std::memcpy(tile_ + codes_bytes + index * 64 + lane_ * 4, &value, 4);
    }
  }

  void put_q4(const Block& block) {
    for (std::size_t word = 0; word < 4; ++word) {
      std::uint32_t bits = 0;
      for (std::size_t k = 0; k < 8; ++k) {
        const auto code = static_cast<std::uint32_t>(block.codes[word * 8 + k]);
        bits |= code << (k / 2 * 4 + k % 2 * 16);
      }
      put_word(word, bits);
    }
    put_scale(256, 0, block.scales[0]);
    put_scale(256, 1, block.minimum);
  }

  void put_q8(const Block& block) {
    for (std::size_t word = 0; word < 8; ++word) {
      put_word(word, read<std::uint32_t>(reinterpret_cast<const std::uint8_t*>(block.codes) +
                                         word * 4));
    }
    put_scale(512, 0, block.scales[0]);
    if (format_ == WeightFormat::kQ8Float) put_scale(512, 1, block.scales[1]);
  }

  void put_f32(const std::uint8_t* values, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) put_word(k, read<std::uint32_t>(values + k * 4));
  }

  void put_bf16(const std::uint8_t* values, std::size_t count) {
    for (std::size_t k = 0; k < count; ++k) {
      std::memcpy(tile_ + k / 2 * 64 + lane_ * 4 + k % 2 * 2, values + k * 2, 2);
    }
  }

 private:
  WeightFormat format_;
  std::uint8_t* tile_;
  std::size_t lane_;
};

struct Shape {
  std::size_t inputs, bytes;  // of a block of the source
};

Shape block_shape(SourceFormat source) {
  switch (source) {
    case SourceFormat::kF32:
      return {1, 4};
    case SourceFormat::kBf16:
      return {1, 2};
    case SourceFormat::kQ8_0:
      return {32, 34};
    case SourceFormat::kQ4_0:
      return {32, 18};
    case SourceFormat::kQ4_1:
      return {32, 20};
    case SourceFormat::kQ4_K:
      return {256, 144};
    case SourceFormat::kQ6_K:
      return {256, 210};
  }
  return {1, 0};
}

}  // namespace

SourceFormat source_named(const std::string& name) {
  if (name == "F32") return SourceFormat::kF32;
  if (name == "BF16") return SourceFormat::kBf16;
  if (name == "Q8_0") return SourceFormat::kQ8_0;
  if (name == "Q4_0") return SourceFormat::kQ4_0;
  if (name == "Q4_1") return SourceFormat::kQ4_1;
  if (name == "Q4_K") return SourceFormat::kQ4_K;
  if (name == "Q6_K") return SourceFormat::kQ6_K;
  throw std::invalid_argument("the kernels do not keep weights of type " + name);
}

WeightFormat kept_as(SourceFormat source) {
  switch (source) {
    case SourceFormat::kF32:
      return WeightFormat::kF32;
    case SourceFormat::kBf16:
      return WeightFormat::kBf16;
    case SourceFormat::kQ8_0:
      return WeightFormat::kQ8Half;
    case SourceFormat::kQ4_0:
    case SourceFormat::kQ4_1:
      return WeightFormat::kQ4Half;
    case SourceFormat::kQ4_K:
      return WeightFormat::kQ4Float;
    case SourceFormat::kQ6_K:
      return WeightFormat::kQ8Float;
  }
  return WeightFormat::kF32;
}

std::size_t row_bytes(SourceFormat source, std::size_t num_inputs) {
  const Shape shape = block_shape(source);
  if (num_inputs % shape.inputs != 0) {
    throw std::invalid_argument("a row is not made of whole blocks");
  }
  return num_inputs / shape.inputs * shape.bytes;
}

void pack_row(SourceFormat source, const std::uint8_t* row, std::size_t num_inputs,
              std::size_t output, std::uint8_t* tiles) {
  const WeightFormat format = kept_as(source);
  const std::size_t bytes = tile_bytes(format);
  const std::size_t num_blocks = (num_inputs + kBlockInputs - 1) / kBlockInputs;
  const std::size_t panel = output / kPanelOutputs;
  std::uint8_t* first = tiles + (panel / 2 * num_blocks * 2 + panel % 2) * bytes;
  for (std::size_t block = 0; block < num_blocks; ++block) {
    Tile tile(format, first + block * 2 * bytes, output % kPanelOutputs);
    const std::size_t left = num_inputs - block * kBlockInputs;
    const std::size_t count = left < kBlockInputs ? left : kBlockInputs;
    switch (format) {
      case WeightFormat::kF32:
        tile.put_f32(row + block * kBlockInputs * 4, count);
        break;
      case WeightFormat::kBf16:
        tile.put_bf16(row + block * kBlockInputs * 2, count);
        break;
      case WeightFormat::kQ4Half:
      case WeightFormat::kQ4Float:
        tile.put_q4(read_block(source, row, block));
        break;
      case WeightFormat::kQ8Half:
      case WeightFormat::kQ8Float:
        tile.put_q8(read_block(source, row, block));
        break;
    }
  }
}

}  // namespace okibi
