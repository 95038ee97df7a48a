// Attention of a few rows over bfloat16 pages, as in decoding: keys and values are read once, from
// where they are.
#pragma once

#include "attention.h"
#include "bf16_tiles.h"

namespace OKIBI_ISA {

constexpr std::size_t kFewAttentionKeys = 64;
constexpr std::size_t kFewAttentionRows = 16;

// Where keys start, those beyond the last one repeated.
template <std::size_t kCount>
struct KeyPointers {
  const std::uint16_t* at[kCount];

  KeyPointers(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
              std::size_t first, std::size_t count) {
    const std::size_t block_tokens = call.pages.block_tokens;
    for (std::size_t i = 0; i < count;) {
      const std::size_t left = block_tokens - (first + i) % block_tokens;
      const std::uint16_t* key = key_at<std::uint16_t>(call, task, first + i);
      for (const std::size_t end = least(i + left, count); i < end; ++i) {
        at[i] = key;
        key += call.heads.head_dim;
      }
    }
    for (std::size_t i = count; i < kCount; ++i) at[i] = at[count - 1];
  }
};

// Lane i: the sum of all lanes of rows[i].
inline Floats sum_each(const Floats* rows) {
  __m512 quarter[4];
  for (std::size_t i = 0; i < 4; ++i) {
    const Floats* four = rows + 4 * i;
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(four[0].v, four[1].v),
                                    _mm512_unpackhi_ps(four[0].v, four[1].v));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(four[2].v, four[3].v),
                                    _mm512_unpackhi_ps(four[2].v, four[3].v));
    quarter[i] = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
  }
  const __m512 low = _mm512_add_ps(_mm512_shuffle_f32x4(quarter[0], quarter[1], 0x88),
                                   _mm512_shuffle_f32x4(quarter[0], quarter[1], 0xdd));
  const __m512 high = _mm512_add_ps(_mm512_shuffle_f32x4(quarter[2], quarter[3], 0x88),
                                    _mm512_shuffle_f32x4(quarter[2], quarter[3], 0xdd));
  return {_mm512_add_ps(_mm512_shuffle_f32x4(low, high, 0x88),
                        _mm512_shuffle_f32x4(low, high, 0xdd))};
}

// Scores of one row and sixteen keys.
inline Floats score_keys(const std::uint16_t* q, const std::uint16_t* const* keys,
                         std::size_t dim) {
  Floats sums[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) {
    sums[i] = zero();
    for (std::size_t at = 0; at < dim; at += 32) {
      sums[i] = dot(load_pairs(keys[i] + at), load_pairs(q + at), sums[i]);
    }
  }
  return sum_each(sums);
}

// out[row][at, at + 32) += p[row] times the values of 64 keys.
template <std::size_t kRows>
inline void add_values(const std::uint16_t* const* values, const std::uint16_t* p, std::size_t dim,
                       std::size_t at, float* out) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  Floats left[kRows], right[kRows];
  for (std::size_t r = 0; r < kRows; ++r) {
    left[r] = load(out + r * dim + at);
    right[r] = load(out + r * dim + at + kLanes);
  }
  for (std::size_t i = 0; i < kFewAttentionKeys; i += 2) {
    const Pairs even = load_pairs(values[i] + at), odd = load_pairs(values[i + 1] + at);
    const Pairs first{_mm512_permutex2var_epi16(even.v, low, odd.v)};
    const Pairs second{_mm512_permutex2var_epi16(even.v, high, odd.v)};
    for (std::size_t r = 0; r < kRows; ++r) {
      const Pairs share = set1_pair(p + r * kFewAttentionKeys + i);
      left[r] = dot(first, share, left[r]);
      right[r] = dot(second, share, right[r]);
    }
  }
  for (std::size_t r = 0; r < kRows; ++r) {
    store(out + r * dim + at, left[r]);
    store(out + r * dim + at + kLanes, right[r]);
  }
}

inline void add_values(std::size_t rows, const std::uint16_t* const* values,
                       const std::uint16_t* p, std::size_t dim, float* out) {
  for (std::size_t at = 0; at < dim; at += 32) {
    for (std::size_t row = 0; row < rows; row += 4) {
      const std::uint16_t* shares = p + row * kFewAttentionKeys;
      float* to = out + row * dim;
      switch (rows - row) {
        case 1:
          add_values<1>(values, shares, dim, at, to);
          break;
        case 2:
          add_values<2>(values, shares, dim, at, to);
          break;
        case 3:
          add_values<3>(values, shares, dim, at, to);
          break;
        default:
          add_values<4>(values, shares, dim, at, to);
      }
    }
  }
}

// Scratch: float out [16][head_dim]. Needs head_dim to be a multiple of 32.
inline void attend_few(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                       void* memory) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  const std::size_t rows = task.num_tokens * group;
  float* out = static_cast<float*>(memory);
  float maxima[kFewAttentionRows], sums[kFewAttentionRows];
  alignas(64) float scores[kFewAttentionKeys];
  alignas(64) std::uint16_t shares[kFewAttentionRows * kFewAttentionKeys];
  const Softmax softmax{maxima, sums};
  std::memset(out, 0, rows * dim * sizeof(float));
  for (std::size_t row = 0; row < rows; ++row) {
    maxima[row] = kNever;
    sums[row] = 0.0f;
  }
  for (std::size_t first = task.kv_begin; first < task.kv_end; first += kFewAttentionKeys) {
    const std::size_t count = least(kFewAttentionKeys, task.kv_end - first);
    KeyPointers<kFewAttentionKeys> keys(call, task, first, count);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* q = static_cast<const std::uint16_t*>(call.q) +
                      (task.first_token + row / group) * call.q_stride +
                      (task.kv_head * group + row % group) * dim;
      for (std::size_t i = 0; i < kFewAttentionKeys; i += 16) {
        store(scores + i, score_keys(q, keys.at + i, dim));
      }
      const okibi::Rows seen = seen_by(call, task, row / group);
      const std::size_t begin = seen.begin > first ? least(seen.begin - first, count) : 0;
      const std::size_t end = seen.end > first ? least(seen.end - first, count) : 0;
      const float kept =
          absorb(softmax, row, call.scale, begin, end, kFewAttentionKeys, scores);
      for (std::size_t i = 0; i < kFewAttentionKeys; i += kLanes) {
        store_bf16(shares + row * kFewAttentionKeys + i, load(scores + i));
      }
      for (std::size_t at = 0; kept != 1.0f && at < dim; at += kLanes) {
        store(out + row * dim + at, load(out + row * dim + at) * set1(kept));
      }
    }
    const std::size_t to_values = value_offset(call);
    for (const std::uint16_t*& at : keys.at) at += to_values;
    add_values(rows, keys.at, shares, dim, out);
  }
  finish_attention(call, task, out, dim, softmax);
}

}  // namespace OKIBI_ISA
