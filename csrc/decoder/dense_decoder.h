// The dense decoder's forward pass: one call for all layers of a batch.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "../kernels/kernel_set.h"
#include "../memory/packed_matrix.h"
#include "../threads/thread_team.h"
#include "attention_plan.h"

namespace okibi {

// A product with one or more matrices of the same inputs, their outputs side by side.
struct Linear {
  std::vector<std::shared_ptr<PackedMatrix>> parts;
  std::vector<float> bias;  // of all outputs, or empty
  std::size_t num_outputs() const;
};

struct DecoderLayer {
  std::vector<float> attention_norm, mlp_norm;
  std::vector<float> q_norm, k_norm;  // or empty
  Linear qkv, o, gate_up, down;       // panels of gate and up alternate
  std::size_t window;                 // 0 for none
};

struct DecoderShape {
  std::size_t hidden_size, intermediate_size, vocab_size;
  Heads heads;
  float norm_epsilon;
  float attention_scale;
  std::vector<float> rope_frequencies;  // [head_dim / 2]
  float rope_magnitude;
};

struct Batch {
  const std::int32_t* token_ids;
  std::vector<Span> spans;  // cover all tokens
  std::size_t num_tokens;
  const std::int32_t* sampled;  // indices of tokens
  std::size_t num_sampled;
};

// Where all layers' keys and values are.
struct KVPages {
  PageView view;  // its base is the arena's
  std::vector<std::size_t> layer_offsets;
};

enum class Phase { kEmbed, kNorm, kQkv, kPosition, kAttention, kO, kGateUp, kDown, kHead, kChoose };
constexpr std::size_t kNumPhases = 10;
const char* phase_name(Phase phase);

class DenseDecoder {
 public:
  // Throws std::invalid_argument if the parts do not fit together or the kernels.
  DenseDecoder(const KernelSet& kernels, std::size_t num_threads, DecoderShape shape,
               std::vector<DecoderLayer> layers, std::shared_ptr<PackedMatrix> embedding,
               std::vector<float> norm, std::shared_ptr<PackedMatrix> head);

  // Logits float [sampled][vocab_size], and of each row the token of the largest, or -1 if they are
  // not finite.
  void forward(const Batch& batch, const KVPages& pages, float* logits, std::int32_t* choices);

  // Seconds spent in each phase since the last call.
  std::array<double, kNumPhases> take_seconds();

 private:
  struct Part {
    std::uint32_t matrix, pair;
  };
  class Timer;

  void reserve(std::size_t num_tokens);
  void place(const Batch& batch, const PageView& view);
  void mix(std::size_t index, const Batch& batch, const KVPages& pages);
  void keep_sampled(const Batch& batch);
  void transform(const DecoderLayer& layer, std::size_t rows);
  void attend(const DecoderLayer& layer, const PageView& view);
  void norm(const float* x, const std::vector<float>& weight, std::size_t rows);
  void multiply(const Linear& linear, const void* x, std::size_t x_stride, std::size_t rows,
                Epilogue epilogue, void* out, std::size_t out_stride);
  void multiply_parts(const Linear& linear, const std::vector<Part>& parts, Rows chosen,
                      LinearCall call, Rows rows, std::size_t thread);
  void run_head(std::size_t rows, float* logits, std::int32_t* choices);

  const KernelSet& kernels_;
  ThreadTeam team_;
  DecoderShape shape_;
  std::vector<DecoderLayer> layers_;
  std::shared_ptr<PackedMatrix> embedding_;
  std::vector<float> norm_;
  Linear head_;
  std::vector<AttentionPlan> plans_;  // one a window

  std::size_t capacity_ = 0;
  std::size_t hidden_stride_, q_stride_, inner_stride_;
  Buffer x_, normed_, qkv_, q_, attended_, inner_, cos_sin_, places_, block_sums_;
  std::vector<Buffer> scratch_;  // one a thread
  std::vector<Part> parts_;
  std::array<double, kNumPhases> seconds_{};
};

}  // namespace okibi
