// Attention over pages, block of positions by block, with a running softmax
// (Milakov and Gimelshein 2018; Dao et al. 2022). Float arithmetic for any shape and type.
#pragma once

#include <cmath>

#include "float_gemm.h"
#include "kernel_set.h"

namespace OKIBI_ISA {

#if defined(__AMX_BF16__)
constexpr std::size_t kAttentionRows = 256;
#else
constexpr std::size_t kAttentionRows = 64;
#endif
constexpr std::size_t kAttentionKeys = 64;
constexpr float kNever = -3.0e38f;

// What a row sees: positions [begin, end).
inline okibi::Rows seen_by(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                           std::size_t token) {
  const std::size_t end = task.start + token + 1;
  return {call.window == 0 || end < call.window ? 0 : end - call.window, end};
}

template <typename KV>
inline const KV* key_at(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                        std::size_t position) {
  const auto page = static_cast<std::size_t>(task.pages[position / call.pages.block_tokens]);
  const std::uint8_t* base = call.pages.base + page * call.pages.page_bytes;
  const std::size_t slot = position % call.pages.block_tokens;
  return reinterpret_cast<const KV*>(base) +
         (task.kv_head * call.pages.block_tokens + slot) * call.heads.head_dim;
}

inline std::size_t value_offset(const okibi::AttentionCall& call) {
  return call.heads.num_kv_heads * call.pages.block_tokens * call.heads.head_dim;
}

// The running softmax of some rows.
struct Softmax {
  float* maxima;  // scaled logits
  float* sums;    // of exponentials against the maximum
};

// Takes in `count` raw scores of a row, those outside of [begin, end) unseen; leaves exponentials
// in their place. Returns the factor that what came before must be multiplied by.
inline float absorb(const Softmax& softmax, std::size_t row, float scale, std::size_t begin,
                    std::size_t end, std::size_t count, float* scores) {
  for (std::size_t i = 0; i < begin; ++i) scores[i] = kNever;
  for (std::size_t i = end; i < count; ++i) scores[i] = kNever;
  if (begin >= end) {
    for (std::size_t i = 0; i < count; ++i) scores[i] = 0.0f;
    return 1.0f;
  }
  Floats top = set1(kNever);
  for (std::size_t i = 0; i < count; i += kLanes) top = max(top, load(scores + i));
  const float old = softmax.maxima[row];
  const float best = largest(top) * scale;
  const float now = best > old ? best : old;
  const Floats factor = set1(scale), shift = set1(-now), unseen = set1(kNever / 2);
  Floats total = zero();
  for (std::size_t i = 0; i < count; i += kLanes) {
    const Floats value = exp(fma(max(load(scores + i), unseen), factor, shift));
    store(scores + i, value);
    total = total + value;
  }
  for (std::size_t i = 0; i < begin; ++i) scores[i] = 0.0f;
  for (std::size_t i = end; i < count; ++i) scores[i] = 0.0f;
  const float kept = old > kNever ? std::exp(old - now) : 0.0f;
  softmax.maxima[row] = now;
  softmax.sums[row] = softmax.sums[row] * kept + sum(total);
  return kept;
}

// Writes a task's rows out: float rows [row][stride] not yet divided by their sums.
inline void finish_attention(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                             const float* out, std::size_t stride, const Softmax& softmax) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  const std::size_t rows = task.num_tokens * group;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t token = task.first_token + row / group;
    const std::size_t head = task.kv_head * group + row % group;
    const float highest = softmax.maxima[row];
    float total = softmax.sums[row];
    if (task.partial == nullptr && call.sinks != nullptr) {
      total += std::exp(call.sinks[head] - highest);
    }
    const float lse = total > 0.0f ? highest + std::log(total) : -INFINITY;
    const Floats share = set1(total > 0.0f ? 1.0f / total : 0.0f);
    if (task.partial != nullptr) {
      for (std::size_t i = 0; i < dim; i += kLanes) {
        store_row(task.partial + row * dim, i, dim, load_row(out + row * stride, i, dim) * share);
      }
      task.partial[rows * dim + row] = lse;
      continue;
    }
    Act* to = static_cast<Act*>(call.out) + token * call.out_stride + head * dim;
    for (std::size_t i = 0; i < dim; i += kLanes) {
      store_row(to, i, dim, load_row(out + row * stride, i, dim) * share);
    }
    if (call.lse != nullptr) call.lse[token * call.heads.num_heads + head] = lse;
  }
}

// Working memory of a task, floats.
struct AttentionScratch {
  std::size_t width;  // head_dim, padded
  float *q, *keys, *turned, *values, *scores, *out;
  Softmax softmax;

  AttentionScratch(void* memory, std::size_t head_dim) : width(round_up(head_dim, 32)) {
    q = static_cast<float*>(memory);
    keys = q + kAttentionRows * width;
    turned = keys + kAttentionKeys * width;
    values = turned + kAttentionKeys * width;
    scores = values + kAttentionKeys * width;
    out = scores + kAttentionRows * kAttentionKeys;
    softmax = {out + kAttentionRows * width,
               out + kAttentionRows * width + kAttentionRows};
  }
};

inline std::size_t float_attention_scratch_bytes(std::size_t head_dim) {
  const std::size_t width = round_up(head_dim, 32);
  return sizeof(float) * (width * (2 * kAttentionRows + 3 * kAttentionKeys) +
                          kAttentionRows * (kAttentionKeys + 2));
}

inline void gather_queries(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                           std::size_t rows, const AttentionScratch& s) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  std::memset(s.q, 0, rows * s.width * sizeof(float));
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t token = task.first_token + row / group;
    const Act* from = static_cast<const Act*>(call.q) + token * call.q_stride +
                      (task.kv_head * group + row % group) * dim;
    for (std::size_t i = 0; i < dim; i += kLanes) {
      store(s.q + row * s.width + i, load_row(from, i, dim));
    }
  }
}

// Keys and values of positions [first, first + count), widened; rows beyond are zero.
template <typename KV>
inline void widen_block(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                        std::size_t first, std::size_t count, const AttentionScratch& s) {
  const std::size_t dim = call.heads.head_dim;
  for (std::size_t i = 0; i < count; ++i) {
    const KV* key = key_at<KV>(call, task, first + i);
    const KV* value = key + value_offset(call);
    for (std::size_t at = 0; at < dim; at += kLanes) {
      store(s.keys + i * s.width + at, load_row(key, at, dim));
      store(s.values + i * s.width + at, load_row(value, at, dim));
    }
  }
}

// Scores of a few rows, key by key.
inline void score_by_dots(std::size_t rows, std::size_t count, const AttentionScratch& s) {
  for (std::size_t key = 0; key < count; ++key) {
    for (std::size_t row = 0; row < rows; ++row) {
      Floats total = zero();
      for (std::size_t at = 0; at < s.width; at += kLanes) {
        total = fma(load(s.q + row * s.width + at), load(s.keys + key * s.width + at), total);
      }
      s.scores[row * kAttentionKeys + key] = sum(total);
    }
  }
}

// Scores of many rows: a product with the keys turned on their side.
inline void score_by_product(std::size_t rows, std::size_t count, std::size_t dim,
                             const AttentionScratch& s) {
  for (std::size_t key = 0; key < count; ++key) {
    for (std::size_t at = 0; at < dim; ++at) {
      s.turned[at * kAttentionKeys + key] = s.keys[key * s.width + at];
    }
  }
  std::memset(s.scores, 0, rows * kAttentionKeys * sizeof(float));
  gemm(rows, kAttentionKeys, dim, s.q, s.width, s.turned, kAttentionKeys, s.scores,
       kAttentionKeys);
}

template <typename KV>
inline void attend(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                   void* memory) {
  constexpr std::size_t kFewQueries = 8;
  const AttentionScratch s(memory, call.heads.head_dim);
  const std::size_t group = call.heads.group(), rows = task.num_tokens * group;
  gather_queries(call, task, rows, s);
  std::memset(s.out, 0, rows * s.width * sizeof(float));
  std::memset(s.keys, 0, kAttentionKeys * s.width * sizeof(float));
  std::memset(s.turned, 0, kAttentionKeys * s.width * sizeof(float));
  std::memset(s.values, 0, kAttentionKeys * s.width * sizeof(float));
  for (std::size_t row = 0; row < rows; ++row) {
    s.softmax.maxima[row] = kNever;
    s.softmax.sums[row] = 0.0f;
  }
  for (std::size_t first = task.kv_begin; first < task.kv_end; first += kAttentionKeys) {
    const std::size_t count = least(kAttentionKeys, task.kv_end - first);
    widen_block<KV>(call, task, first, count, s);
    if (rows < kFewQueries) {
      score_by_dots(rows, count, s);
    } else {
      score_by_product(rows, count, call.heads.head_dim, s);
    }
    for (std::size_t row = 0; row < rows; ++row) {
      const okibi::Rows seen = seen_by(call, task, row / group);
      const std::size_t begin = seen.begin > first ? least(seen.begin - first, count) : 0;
      const std::size_t end = seen.end > first ? least(seen.end - first, count) : 0;
      const float kept = absorb(s.softmax, row, call.scale, begin, end, kAttentionKeys,
                                s.scores + row * kAttentionKeys);
      if (kept == 1.0f) continue;
      for (std::size_t at = 0; at < s.width; at += kLanes) {
        store(s.out + row * s.width + at, load(s.out + row * s.width + at) * set1(kept));
      }
    }
    gemm(rows, s.width, kAttentionKeys, s.scores, kAttentionKeys, s.values, s.width,
         s.out, s.width);
  }
  finish_attention(call, task, s.out, s.width, s.softmax);
}

inline void float_attention(const okibi::AttentionCall& call, const okibi::AttentionTask& task,
                      void* memory) {
  if (call.pages.type == okibi::KVType::kBf16) return attend<std::uint16_t>(call, task, memory);
  attend<float>(call, task, memory);
}

// Joins results over parts of the positions by their lse (Flash-Decoding, Dao et al. 2023).
inline void merge(const okibi::AttentionCall& call, const okibi::AttentionTask* tasks,
                  std::size_t num_tasks) {
  const std::size_t dim = call.heads.head_dim, group = call.heads.group();
  const std::size_t rows = tasks[0].num_tokens * group;
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t token = tasks[0].first_token + row / group;
    const std::size_t head = tasks[0].kv_head * group + row % group;
    float highest = call.sinks == nullptr ? kNever : call.sinks[head];
    for (std::size_t i = 0; i < num_tasks; ++i) {
      const float lse = tasks[i].partial[rows * dim + row];
      highest = lse > highest ? lse : highest;
    }
    float total = call.sinks == nullptr ? 0.0f : std::exp(call.sinks[head] - highest);
    for (std::size_t i = 0; i < num_tasks; ++i) {
      total += std::exp(tasks[i].partial[rows * dim + row] - highest);
    }
    Act* to = static_cast<Act*>(call.out) + token * call.out_stride + head * dim;
    for (std::size_t at = 0; at < dim; at += kLanes) {
      Floats joined = zero();
      for (std::size_t i = 0; i < num_tasks; ++i) {
        const float share = std::exp(tasks[i].partial[rows * dim + row] - highest) / total;
        joined = fma(load_row(tasks[i].partial + row * dim, at, dim), set1(share), joined);
      }
      store_row(to, at, dim, joined);
    }
    if (call.lse != nullptr) {
      call.lse[token * call.heads.num_heads + head] = highest + std::log(total);
    }
  }
}

}  // namespace OKIBI_ISA
