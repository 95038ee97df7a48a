// Embedding, RMSNorm, rotary positions and the write of keys and values.
#pragma once

#include <cmath>

#include "act.h"
#include "kernel_set.h"
#include "tiles.h"

namespace OKIBI_ISA {

inline void embed(const okibi::Weights& weights, const std::int32_t* ids, okibi::Rows rows,
                  float* x, std::size_t x_stride) {
  with_tile(weights.format, [&](auto tile) {
    using T = decltype(tile);
    for (std::size_t row = rows.begin; row < rows.end; ++row) {
      const auto id = static_cast<std::size_t>(ids[row]);
      const std::size_t panel = id / okibi::kPanelOutputs, lane = id % okibi::kPanelOutputs;
      const std::uint8_t* at = weights.pair(panel / 2) + panel % 2 * T::kBytes;
      for (std::size_t k = 0; k < weights.num_inputs; ++k) {
        float lanes[kLanes];
        store(lanes, T::weight(at + k / 32 * 2 * T::kBytes, k % 32));
        x[row * x_stride + k] = lanes[lane];
      }
    }
  });
}

// The place of the largest logit, the first among equals, or -1 if their sum is not finite.
inline std::int32_t choose(const float* logits, std::size_t count) {
  Floats total = zero(), best = set1(logits[0]);
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) {
    const Floats part = load(logits + i);
    total = total + part;
    best = max(best, part);
  }
  float sum_of_all = sum(total), highest = largest(best);
  for (std::size_t i = count / kLanes * kLanes; i < count; ++i) {
    sum_of_all += logits[i];
    highest = logits[i] > highest ? logits[i] : highest;
  }
  if (!std::isfinite(sum_of_all)) return -1;
  std::size_t block = 0;
  while (block + kLanes < count && largest(load(logits + block)) < highest) block += kLanes;
  while (logits[block] < highest) ++block;
  return static_cast<std::int32_t>(block);
}

// The reciprocal of the root of the mean square.
template <typename T>
inline float rms_scale(const T* x, std::size_t width, float epsilon) {
  Floats total = zero();
  for (std::size_t i = 0; i < width; i += kLanes) {
    const Floats part = load_row(x, i, width);
    total = fma(part, part, total);
  }
  return 1.0f / std::sqrt(sum(total) / static_cast<float>(width) + epsilon);
}

// Zhang and Sennrich 2019.
inline void rms_norm(const okibi::NormCall& call, okibi::Rows rows) {
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    const float* x = call.x + row * call.x_stride;
    Act* out = static_cast<Act*>(call.out) + row * call.out_stride;
    const Floats scale = set1(rms_scale(x, call.width, call.epsilon));
    for (std::size_t i = 0; i < call.width; i += kLanes) {
      const Floats normed = load_row(x, i, call.width) * scale;
      store_row(out, i, call.width, normed * load_row(call.weight, i, call.width));
    }
  }
}

// One head, its halves rotated against each other (Su et al. 2021), after its norm if it has one.
template <typename Out>
inline void position_head(const float* x, const float* norm, float epsilon, const float* cos_sin,
                          std::size_t head_dim, Out* out) {
  const std::size_t half = head_dim / 2;
  const Floats scale = set1(norm == nullptr ? 1.0f : rms_scale(x, head_dim, epsilon));
  for (std::size_t i = 0; i < half; i += kLanes) {
    Floats low = load_row(x, i, half) * scale, high = load_row(x + half, i, half) * scale;
    if (norm != nullptr) {
      low = low * load_row(norm, i, half);
      high = high * load_row(norm + half, i, half);
    }
    const Floats cosine = load_row(cos_sin, i, half), sine = load_row(cos_sin + half, i, half);
    store_row(out, i, half, low * cosine - high * sine);
    store_row(out + half, i, half, high * cosine + low * sine);
  }
}

template <typename KV>
inline void position_rows(const okibi::PositionCall& call, okibi::Rows rows) {
  const std::size_t dim = call.heads.head_dim, num_kv = call.heads.num_kv_heads;
  const std::size_t width = (call.heads.num_heads + 2 * num_kv) * dim;
  for (std::size_t row = rows.begin; row < rows.end; ++row) {
    const float* q = call.qkv + row * width;
    const float* k = q + call.heads.num_heads * dim;
    const float* v = k + num_kv * dim;
    const float* cos_sin = call.cos_sin + row * dim;
    Act* out = static_cast<Act*>(call.q) + row * call.q_stride;
    for (std::size_t head = 0; head < call.heads.num_heads; ++head) {
      position_head(q + head * dim, call.q_norm, call.epsilon, cos_sin, dim, out + head * dim);
    }
    const auto page = static_cast<std::size_t>(call.page_of_row[row]);
    const auto slot = static_cast<std::size_t>(call.slot_of_row[row]);
    KV* keys = reinterpret_cast<KV*>(call.pages.base + page * call.pages.page_bytes) + slot * dim;
    const std::size_t head_stride = call.pages.block_tokens * dim;
    KV* values = keys + num_kv * head_stride;
    for (std::size_t head = 0; head < num_kv; ++head) {
      position_head(k + head * dim, call.k_norm, call.epsilon, cos_sin, dim,
                    keys + head * head_stride);
      for (std::size_t i = 0; i < dim; i += kLanes) {
        store_row(values + head * head_stride, i, dim, load_row(v + head * dim, i, dim));
      }
    }
  }
}

inline void position(const okibi::PositionCall& call, okibi::Rows rows) {
  if (call.pages.type == okibi::KVType::kBf16) return position_rows<std::uint16_t>(call, rows);
  position_rows<float>(call, rows);
}

}  // namespace OKIBI_ISA
