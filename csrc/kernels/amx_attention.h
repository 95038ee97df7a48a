// Attention of many rows over bfloat16 pages by AMX, as in prefill: keys and values of a block of
// positions are brought into the order of tiles once for all rows of the task.
#pragma once

#include "bf16_attention.h"
#include "bf16_gemm.h"

namespace OKIBI_ISA {

constexpr std::size_t kAmxKeys = 64;
constexpr std::size_t kAmxRows = 32;

// Working memory of a task.
struct AmxScratch {
  std::uint16_t* q;       // [rows][dim]
  std::uint8_t* keys;     // tiles [16 keys][32 dims]
  std::uint8_t* values;   // tiles [32 keys][16 dims]
  float* out;             // [rows][dim]
  float* scores;          // [32][128]
  std::uint16_t* shares;  // [32][128]
  Softmax softmax;

  AmxScratch(void* memory, std::size_t dim) {
    auto* at = static_cast<std::uint8_t*>(memory);
    const auto take = [&at](std::size_t bytes) {
      std::uint8_t* start = at;
      at += round_up(bytes, 64);
      return start;
    };
    q = reinterpret_cast<std::uint16_t*>(take(kAttentionRows * dim * 2));
    keys = take(kAmxKeys * dim * 2);
    values = take(kAmxKeys * dim * 2);
    out = reinterpret_cast<float*>(take(kAttentionRows * dim * 4));
    scores = reinterpret_cast<float*>(take(kAmxRows * kAmxKeys * 4));
    shares = reinterpret_cast<std::uint16_t*>(take(kAmxRows * kAmxKeys * 2));
    softmax.maxima = reinterpret_cast<float*>(take(kAttentionRows * 4));
    softmax.sums = reinterpret_cast<float*>(take(kAttentionRows * kLanes * 4));
  }

  static std::size_t bytes(std::size_t dim) {
    return kAttentionRows * (dim * 6 + 4 + kLanes * 4) + kAmxKeys * dim * 4 + kAmxRows * kAmxKeys * 6;
  }
};

// Turns sixteen rows of sixteen words on their side.
inline void transpose_words(const std::uint16_t* const* rows, std::size_t at, std::uint8_t* tile) {
  __m512i a[16], b[16];
#pragma GCC unroll 16
  for (std::size_t i = 0; i < 16; ++i) a[i] = _mm512_loadu_si512(rows[i] + at);
#pragma GCC unroll 8
  for (std::size_t i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_epi32(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_epi32(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 16; i += 4) {
    a[i] = _mm512_unpacklo_epi64(b[i], b[i + 2]);
    a[i + 1] = _mm512_unpackhi_epi64(b[i], b[i + 2]);
    a[i + 2] = _mm512_unpacklo_epi64(b[i + 1], b[i + 3]);
    a[i + 3] = _mm512_unpackhi_epi64(b[i + 1], b[i + 3]);
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < 4; ++i) {
    const __m512i low_even = _mm512_shuffle_i32x4(a[i], a[i + 4], 0x88);
    const __m512i low_odd = _mm512_shuffle_i32x4(a[i], a[i + 4], 0xdd);
    const __m512i high_even = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0x88);
    const __m512i high_odd = _mm512_shuffle_i32x4(a[i + 8], a[i + 12], 0xdd);
    _mm512_storeu_si512(tile + i * 64, _mm512_shuffle_i32x4(low_even, high_even, 0x88));
    _mm512_storeu_si512(tile + (i + 8) * 64, _mm512_shuffle_i32x4(low_even, high_even, 0xdd));
    _mm512_storeu_si512(tile + (i + 4) * 64, _mm512_shuffle_i32x4(low_odd, high_odd, 0x88));
    _mm512_storeu_si512(tile + (i + 12) * 64, _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd));
  }
}

inline void prepare_keys(const std::uint16_t* const* keys, std::size_t count, std::size_t dim,
                         std::uint8_t* tiles) {
  for (std::size_t key = 0; key < count; key += 16) {
    for (std::size_t at = 0; at < dim; at += 32, tiles += 1024) {
      transpose_words(keys + key, at, tiles);
    }
  }
}

inline void prepare_values(const std::uint16_t* const* values, std::size_t count, std::size_t dim,
                           std::uint8_t* tiles) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  for (std::size_t key = 0; key < count; key += 2) {
    std::uint8_t* row = tiles + key / 32 * (dim / 16) * 1024 + key % 32 * 32;
    for (std::size_t at = 0; at < dim; at += 32, row += 2048) {
      const __m512i even = _mm512_loadu_si512(values[key] + at);
      const __m512i odd = _mm512_loadu_si512(values[key + 1] + at);
      _mm512_storeu_si512(row, _mm512_permutex2var_epi16(even, low, odd));
      _mm512_storeu_si512(row + 1024, _mm512_permutex2var_epi16(even, high, odd));
    }
  }
}

// scores [32][128] of 32 rows and `count` keys, a multiple of 32.
inline void score_tiles(const std::uint16_t* q, const std::uint8_t* keys, std::size_t count,
                        std::size_t dim, float* scores) {
  const std::size_t group_bytes = dim / 32 * 1024;
  for (std::size_t key = 0; key < count; key += 32, keys += 2 * group_bytes) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (std::size_t step = 0; step < dim / 32; ++step) {
      _tile_loadd(4, q + step * 32, dim * 2);
      _tile_loadd(5, q + 16 * dim + step * 32, dim * 2);
      _tile_loadd(6, keys + step * 1024, 64);
      _tile_loadd(7, keys + group_bytes + step * 1024, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, scores + key, kAmxKeys * 4);
    _tile_stored(1, scores + key + 16, kAmxKeys * 4);
    _tile_stored(2, scores + 16 * kAmxKeys + key, kAmxKeys * 4);
    _tile_stored(3, scores + 16 * kAmxKeys + key + 16, kAmxKeys * 4);
  }
}

// out [32][dim] += shares [32][128] times the values of `count` keys, a multiple of 32.
inline void add_value_tiles(const std::uint16_t* shares, const std::uint8_t* values,
                            std::size_t count, std::size_t dim, float* out) {
  for (std::size_t at = 0; at < dim; at += 32) {
    _tile_loadd(0, out + at, dim * 4);
    _tile_loadd(1, out + at + 16, dim * 4);
    _tile_loadd(2, out + 16 * dim + at, dim * 4);
    _tile_loadd(3, out + 16 * dim + at + 16, dim * 4);
    for (std::size_t key = 0; key < count; key += 32) {
      const std::uint8_t* tiles = values + (key / 32 * (dim / 16) + at / 16) * 1024;
      _tile_loadd(4, shares + key, kAmxKeys * 2);
      _tile_loadd(5, shares + 16 * kAmxKeys + key, kAmxKeys * 2);
      _tile_loadd(6, tiles, 64);
      _tile_loadd(7, tiles + 1024, 64);
      _tile_dpbf16ps(0, 4, 6);
      _tile_dpbf16ps(1, 4, 7);
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out + at, dim * 4);
    _tile_stored(1, out + at + 16, dim * 4);
    _tile_stored(2, out + 16 * dim + at, dim * 4);
    _tile_stored(3, out + 16 * dim + at + 16, dim * 4);
  }
}

// One block of keys and 32 rows from `row` on.
class AmxBlock {
 public:
  AmxBlock(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
           const AmxScratch& scratch, std::size_t first, std::size_t count)
      : call_(call),
        task_(task),
        s_(scratch),
        first_(first),
        count_(count),
        padded_(round_up(count, 32)),
        dim_(call.heads.head_dim) {
    KeyPointers<kAmxKeys> keys(call, task, first, count);
    prepare_keys(keys.at, padded_, dim_, s_.keys);
    for (const std::uint16_t*& at : keys.at) at += value_offset(call);
    prepare_values(keys.at, padded_, dim_, s_.values);
  }

  void attend(std::size_t row, std::size_t end) const {
    const std::size_t group = call_.heads.group();
    const std::size_t last = seen_by(call_, task_, (end - 1) / group).end;
    if (last <= first_) return;
    if (seen_by(call_, task_, row / group).begin >= first_ + count_) return;
    const std::size_t count = least(padded_, round_up(last - first_, 32));
    score_tiles(s_.q + row * dim_, s_.keys, count, dim_, s_.scores);
    for (std::size_t i = 0; row + i < end; ++i) absorb(row + i, i, count);
    add_value_tiles(s_.shares, s_.values, count, dim_, s_.out + row * dim_);
  }

 private:
  void absorb(std::size_t row, std::size_t i, std::size_t count) const {
    float* scores = s_.scores + i * kAmxKeys;
    std::uint16_t* shares = s_.shares + i * kAmxKeys;
    const okibi::Rows seen = seen_of_block(call_, task_, row, first_, count_);
    if (seen.count() == 0) return static_cast<void>(std::memset(shares, 0, count * 2));
    const float kept = absorb_powers(s_.softmax, row, call_.scale, seen, count, scores, shares);
    if (kept != 1.0f) scale_row(s_.out + row * dim_, dim_, kept);
  }

  const okibi::AttentionCall& call_;
  const okibi::AttentionTask& task_;
  const AmxScratch& s_;
  std::size_t first_, count_, padded_, dim_;
};

inline void gather_narrow_queries(const okibi::AttentionCall& call,
                                  const okibi::AttentionTask& task, std::size_t rows,
                                  std::uint16_t* q) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  for (std::size_t row = 0; row < rows; row += group) {
    const auto* from = static_cast<const std::uint16_t*>(call.q) +
                       (task.first_token + row / group) * call.q_stride +
                       task.kv_head * group * dim;
    std::memcpy(q + row * dim, from, group * dim * sizeof(*q));
  }
  std::memset(q + rows * dim, 0, (round_up(rows, kAmxRows) - rows) * dim * sizeof(*q));
}

// Needs head_dim to be a multiple of 32.
inline void attend_many(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                        void* memory) {
  const MatrixUnit unit;
  const std::size_t dim = call.heads.head_dim, rows = task.num_tokens * call.heads.group();
  const AmxScratch s(memory, dim);
  gather_narrow_queries(call, task, rows, s.q);
  std::memset(s.out, 0, round_up(rows, kAmxRows) * dim * sizeof(float));
  std::memset(s.shares, 0, kAmxRows * kAmxKeys * sizeof(*s.shares));
  start_powers(s.softmax, rows);
  for (std::size_t first = task.kv_begin; first < task.kv_end; first += kAmxKeys) {
    const AmxBlock block(call, task, s, first, least(kAmxKeys, task.kv_end - first));
    for (std::size_t row = 0; row < rows; row += kAmxRows) {
      block.attend(row, least(row + kAmxRows, rows));
    }
  }
  end_powers(s.softmax, rows);
  finish_attention(call, task, s.out, dim, s.softmax);
}

}  // namespace OKIBI_ISA
