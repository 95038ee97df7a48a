// Attention of a few rows over bfloat16 pages, as in decoding: keys and values are read once, from
// where they are. The running softmax is in powers of two, and what is summed so far is rescaled
// only when the maximum has grown by more than 2^8 (as in FlashAttention-4, Dao et al. 2026).
#pragma once

#include "attention.h"
#include "bf16_tiles.h"

namespace OKIBI_ISA {

constexpr std::size_t kFewAttentionKeys = 64;
constexpr std::size_t kFewAttentionRows = 16;
constexpr float kLog2E = 1.44269504f;
constexpr float kUnseenScore = -1.0e30f;
constexpr float kMostGrowth = 8.0f;

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

// 2^x for x that is not too large; to 1e-4, which is less than bfloat16 keeps.
inline __m512 short_exp2(__m512 x) {
  constexpr int kFractionAboveFloor = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
  const __m512 part = _mm512_reduce_ps(x, kFractionAboveFloor);
  __m512 p = _mm512_set1_ps(0.07802452f);
  p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(0.22606716f));
  p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(0.69583354f));
  p = _mm512_fmadd_ps(p, part, _mm512_set1_ps(0.99992522f));
  return _mm512_scalef_ps(p, x);
}

// The running softmax in powers of two: maxima are of logits times log2(e), and sums are of sixteen
// lanes a row until the end.
inline void start_powers(const Softmax& softmax, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) softmax.maxima[row] = kNever;
  std::memset(softmax.sums, 0, rows * kLanes * sizeof(float));
}

inline void end_powers(const Softmax& softmax, std::size_t rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    if (softmax.maxima[row] != kNever) softmax.maxima[row] /= kLog2E;
    softmax.sums[row] = sum(load(softmax.sums + row * kLanes));
  }
}

// What a row sees of the keys [first, first + count), counted from `first`.
inline okibi::Rows seen_of_block(const okibi::AttentionCall& call,
                                 const okibi::AttentionTask& task, std::size_t row,
                                 std::size_t first, std::size_t count) {
  const okibi::Rows seen = seen_by(call, task, row / call.heads.group());
  return {seen.begin > first ? least(seen.begin - first, count) : 0,
          seen.end > first ? least(seen.end - first, count) : 0};
}

inline void scale_row(float* out, std::size_t dim, float factor) {
  for (std::size_t at = 0; at < dim; at += kLanes) {
    store(out + at, load(out + at) * set1(factor));
  }
}

// Takes in `count` raw scores of a row, those outside of `seen` unseen, a part of a block that is
// not empty. Returns what the sums so far must be multiplied by.
inline float absorb_powers(const Softmax& softmax, std::size_t row, float scale,
                           okibi::Rows seen, std::size_t count, float* scores,
                           std::uint16_t* shares) {
  for (std::size_t key = 0; key < seen.begin; ++key) scores[key] = kUnseenScore;
  for (std::size_t key = seen.end; key < count; ++key) scores[key] = kUnseenScore;
  const Floats factor = set1(scale * kLog2E);
  Floats top = set1(kUnseenScore);
  for (std::size_t i = 0; i < count; i += kLanes) top = max(top, load(scores + i));
  top = top * factor;
  const float old = softmax.maxima[row];
  float kept = 1.0f;
  if (_mm512_cmp_ps_mask(top.v, _mm512_set1_ps(old + kMostGrowth), _CMP_GT_OQ) != 0) {
    softmax.maxima[row] = largest(top);
    kept = old == kNever ? 0.0f : std::exp2(old - softmax.maxima[row]);
  }
  const __m512 shift = _mm512_set1_ps(-softmax.maxima[row]);
  Floats even = load(softmax.sums + row * kLanes) * set1(kept), odd = zero();
  for (std::size_t i = 0; i < count; i += 32) {
    const Floats a{short_exp2(_mm512_fmadd_ps(_mm512_loadu_ps(scores + i), factor.v, shift))};
    const Floats b{short_exp2(_mm512_fmadd_ps(_mm512_loadu_ps(scores + i + 16), factor.v, shift))};
    even = even + a;
    odd = odd + b;
    _mm512_storeu_si512(shares + i, (__m512i)_mm512_cvtne2ps_pbh(b.v, a.v));
  }
  store(softmax.sums + row * kLanes, even + odd);
  return kept;
}

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

// Scores of one row and 64 keys; kDim is the head's dimension, or 0 for any.
template <std::size_t kDim>
inline void score_keys(const std::uint16_t* q, const std::uint16_t* const* keys,
                       std::size_t any_dim, float* scores) {
  const std::size_t dim = kDim == 0 ? any_dim : kDim;
  for (std::size_t key = 0; key < kFewAttentionKeys; key += 16) {
    Floats sums[16];
#pragma GCC unroll 16
    for (std::size_t i = 0; i < 16; ++i) {
      const std::uint16_t* at = keys[key + i];
      sums[i] = zero();
#pragma GCC unroll 4
      for (std::size_t d = 0; d < dim; d += 32) {
        sums[i] = dot(load_pairs(at + d), load_pairs(q + d), sums[i]);
      }
    }
    store(scores + key, sum_each(sums));
  }
}

inline void score_keys(const std::uint16_t* q, const std::uint16_t* const* keys, std::size_t dim,
                       float* scores) {
  switch (dim) {
    case 64:
      return score_keys<64>(q, keys, dim, scores);
    case 128:
      return score_keys<128>(q, keys, dim, scores);
    default:
      return score_keys<0>(q, keys, dim, scores);
  }
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

// Asks for the keys and values of a block before they are needed: the pages of a sequence lie
// apart, so that the machine cannot guess the next.
inline void prefetch_block(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                           std::size_t first) {
  if (first >= task.kv_end) return;
  const std::size_t bytes = call.heads.head_dim * sizeof(std::uint16_t);
  const KeyPointers<kFewAttentionKeys> keys(call, task, first,
                                            least(kFewAttentionKeys, task.kv_end - first));
  for (const std::uint16_t* key : keys.at) {
    for (std::size_t at = 0; at < bytes; at += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(key) + at, _MM_HINT_T0);
      _mm_prefetch(reinterpret_cast<const char*>(key + value_offset(call)) + at, _MM_HINT_T0);
    }
  }
}

// Scratch: float out [16][head_dim]. Needs head_dim to be a multiple of 32.
inline void attend_few(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                       void* memory) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  const std::size_t rows = task.num_tokens * group;
  float* out = static_cast<float*>(memory);
  float maxima[kFewAttentionRows], sums[kFewAttentionRows * kLanes];
  alignas(64) float scores[kFewAttentionKeys];
  alignas(64) std::uint16_t shares[kFewAttentionRows * kFewAttentionKeys];
  const Softmax softmax{maxima, sums};
  std::memset(out, 0, rows * dim * sizeof(float));
  start_powers(softmax, rows);
  for (std::size_t first = task.kv_begin; first < task.kv_end; first += kFewAttentionKeys) {
    const std::size_t count = least(kFewAttentionKeys, task.kv_end - first);
    KeyPointers<kFewAttentionKeys> keys(call, task, first, count);
    prefetch_block(call, task, first + kFewAttentionKeys);
    for (std::size_t row = 0; row < rows; ++row) {
      const auto* q = static_cast<const std::uint16_t*>(call.q) +
                      (task.first_token + row / group) * call.q_stride +
                      (task.kv_head * group + row % group) * dim;
      score_keys(q, keys.at, dim, scores);
      const okibi::Rows seen = seen_of_block(call, task, row, first, count);
      std::uint16_t* own = shares + row * kFewAttentionKeys;
      if (seen.count() == 0) {
        std::memset(own, 0, kFewAttentionKeys * sizeof(*own));
        continue;
      }
      const float kept =
          absorb_powers(softmax, row, call.scale, seen, kFewAttentionKeys, scores, own);
      if (kept != 1.0f) scale_row(out + row * dim, dim, kept);
    }
    const std::size_t to_values = value_offset(call);
    for (const std::uint16_t*& at : keys.at) at += to_values;
    add_values(rows, keys.at, shares, dim, out);
  }
  end_powers(softmax, rows);
  finish_attention(call, task, out, dim, softmax);
}

}  // namespace OKIBI_ISA
