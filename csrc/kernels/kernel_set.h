// What a level's kernels are called with, and the table of them.
//
// Activations, the inputs of matrices, are `Act`: float, or bfloat16 on levels whose instructions
// multiply it. Rows of activations are padded with zeros to whole blocks of inputs, and their
// buffers to whole multiples of kRowPad rows. The residual stream and all sums are float.
#pragma once

#include <cstddef>
#include <cstdint>

#include "../cpu/level.h"
#include "weights.h"

namespace okibi {

constexpr std::size_t kRowPad = 32;
// Up to so many rows are multiplied without unpacking weights first.
constexpr std::size_t kFewRows = 4;

enum class KVType { kF32, kBf16 };

// What becomes of a matrix's product.
enum class Epilogue {
  kStore,   // out float [row][output] = product + bias
  kAdd,     // out float [row][output] += product + bias
  kSwiGlu,  // out Act [row][16 pair + lane] = silu(gate) * up, panels of a pair being gate and up
};

struct LinearCall {
  Weights weights;
  const float* bias;  // [outputs] or null
  const void* x;      // Act [row][x_stride]
  std::size_t x_stride;
  const float* block_sums;  // [row][blocks of inputs], if there are no more than kFewRows rows
  Epilogue epilogue;
  void* out;
  std::size_t out_stride;
};

// Rows [begin, end).
struct Rows {
  std::size_t begin, end;
  std::size_t count() const { return end - begin; }
};

struct NormCall {
  const float* x;
  std::size_t x_stride;
  std::size_t width;
  const float* weight;
  float epsilon;
  void* out;  // Act
  std::size_t out_stride;
};

// Keys and values of one layer: bytes of page p start at base + p * page_bytes, and are
// KVType [2][KV heads][block_tokens][head_dim].
struct PageView {
  std::uint8_t* base;
  std::size_t page_bytes;
  std::size_t block_tokens;
  KVType type;
};

struct Heads {
  std::size_t num_heads, num_kv_heads, head_dim;
  std::size_t group() const { return num_heads / num_kv_heads; }
};

// Norms per head, rotates and stores one token after another.
struct PositionCall {
  Heads heads;
  PageView pages;
  const float* qkv;  // [row][q, k, v]
  const float* q_norm;  // [head_dim] or null, as k_norm
  const float* k_norm;
  float epsilon;
  const float* cos_sin;  // [row][2][head_dim / 2]
  const std::int32_t* page_of_row;
  const std::int32_t* slot_of_row;
  void* q;  // Act [row][heads][head_dim]
  std::size_t q_stride;
};

struct AttentionCall {
  Heads heads;
  PageView pages;
  float scale;
  std::size_t window;   // most recent positions seen, a token's own included; 0 for all
  const float* sinks;   // one logit a head or null
  const void* q;        // Act [token][heads][head_dim]
  std::size_t q_stride;
  void* out;  // Act, like q
  std::size_t out_stride;
  float* lse;  // [token][heads] or null: log of the sum of exponentials, sinks included
};

// Some tokens of one sequence, one KV head, and some of the positions they see.
struct AttentionTask {
  const std::int32_t* pages;  // of the sequence's blocks
  std::size_t first_token;    // in the batch
  std::size_t num_tokens;
  std::size_t start;  // position of the first token
  std::size_t kv_head;
  std::size_t kv_begin, kv_end;
  // Where the task is one of several over the same tokens: float [rows][head_dim], then [rows] of
  // lse, rows being [token][head of the group]. Null where it is alone.
  float* partial;
};

struct KernelSet {
  Level level;
  std::size_t act_bytes;
  // Most rows (tokens x heads of a group) of an attention task.
  std::size_t attention_rows;

  // x float [row][x_stride] of the matrix's outputs `ids`.
  void (*embed)(const Weights& weights, const std::int32_t* ids, Rows rows, float* x,
                std::size_t x_stride);
  void (*rms_norm)(const NormCall& call, Rows rows);
  // Fills block_sums of a call.
  void (*sum_blocks)(const void* x, std::size_t x_stride, std::size_t num_inputs, Rows rows,
                     float* block_sums);
  void (*linear)(const LinearCall& call, Rows pairs, Rows rows, void* scratch);
  void (*position)(const PositionCall& call, Rows rows);
  void (*attention)(const AttentionCall& call, const AttentionTask& task, void* scratch);
  // Joins the partial results of tasks over the same tokens.
  void (*merge)(const AttentionCall& call, const AttentionTask* tasks, std::size_t num_tasks);
  // The token of the largest logit, the first among equals; -1 if the logits are not finite.
  std::int32_t (*choose)(const float* logits, std::size_t count);
  std::size_t (*linear_scratch_bytes)(std::size_t num_inputs);
  std::size_t (*attention_scratch_bytes)(std::size_t head_dim);
};

// The kernels of a level that was built in and that the machine supports, else null.
const KernelSet* kernels_of(Level level);

}  // namespace okibi
