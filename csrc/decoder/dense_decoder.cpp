#include "dense_decoder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace okibi {
namespace {

constexpr std::size_t kChunksAThread = 8;
// Inputs of as many rows as stay in a core's cache while weights stream by.
constexpr std::size_t kRowBlockBytes = 768 << 10;
constexpr std::size_t kRowsATask = 16;

std::size_t round_up(std::size_t a, std::size_t unit) { return (a + unit - 1) / unit * unit; }

// Whole blocks, and one more so that rows do not all fall on the same sets of a cache.
std::size_t act_stride(std::size_t width) {
  return round_up(width, kBlockInputs) + kBlockInputs;
}

void require(bool condition, const char* message) {
  if (!condition) throw std::invalid_argument(message);
}

void check_linear(const Linear& linear, std::size_t inputs, std::size_t outputs) {
  for (const auto& part : linear.parts) {
    require(part->weights().num_inputs == inputs, "a matrix has the wrong number of inputs");
  }
  require(linear.num_outputs() == outputs, "a matrix has the wrong number of outputs");
  require(linear.bias.empty() || linear.bias.size() == outputs, "a bias has the wrong size");
}

}  // namespace

std::size_t Linear::num_outputs() const {
  std::size_t total = 0;
  for (const auto& part : parts) total += part->weights().num_outputs;
  return total;
}

const char* phase_name(Phase phase) {
  constexpr const char* kNames[kNumPhases] = {"embed", "norm",    "qkv",  "position", "attention",
                                              "o",     "gate_up", "down", "head", "choose"};
  return kNames[static_cast<std::size_t>(phase)];
}

class DenseDecoder::Timer {
 public:
  explicit Timer(DenseDecoder& decoder) : seconds_(decoder.seconds_), last_(now()) {}

  void end(Phase phase) {
    const auto at = now();
    seconds_[static_cast<std::size_t>(phase)] += std::chrono::duration<double>(at - last_).count();
    last_ = at;
  }

 private:
  static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }

  std::array<double, kNumPhases>& seconds_;
  std::chrono::steady_clock::time_point last_;
};

DenseDecoder::DenseDecoder(const KernelSet& kernels, std::size_t num_threads, DecoderShape shape,
                           std::vector<DecoderLayer> layers,
                           std::shared_ptr<PackedMatrix> embedding, std::vector<float> norm,
                           std::shared_ptr<PackedMatrix> head)
    : kernels_(kernels),
      team_(num_threads),
      shape_(std::move(shape)),
      layers_(std::move(layers)),
      embedding_(std::move(embedding)),
      norm_(std::move(norm)),
      head_{{std::move(head)}, {}},
      hidden_stride_(act_stride(shape_.hidden_size)),
      q_stride_(act_stride(shape_.heads.num_heads * shape_.heads.head_dim)),
      inner_stride_(act_stride(shape_.intermediate_size)) {
  require(!layers_.empty(), "a decoder has layers");
  const Heads& heads = shape_.heads;
  const std::size_t q_size = heads.num_heads * heads.head_dim;
  require(heads.num_kv_heads > 0 && heads.num_heads % heads.num_kv_heads == 0,
          "the heads are not a multiple of the KV heads");
  require(heads.group() <= kernels.attention_rows, "a KV head serves too many heads");
  require(shape_.rope_frequencies.size() * 2 == heads.head_dim, "rope needs a frequency a pair");
  require(embedding_->weights().num_outputs == shape_.vocab_size &&
              embedding_->weights().num_inputs == shape_.hidden_size,
          "the embedding has the wrong shape");
  check_linear(head_, shape_.hidden_size, shape_.vocab_size);
  require(norm_.size() == shape_.hidden_size, "the last norm has the wrong size");
  for (const DecoderLayer& layer : layers_) {
    check_linear(layer.qkv, shape_.hidden_size, q_size + 2 * heads.num_kv_heads * heads.head_dim);
    check_linear(layer.o, q_size, shape_.hidden_size);
    check_linear(layer.gate_up, shape_.hidden_size,
                 2 * round_up(shape_.intermediate_size, kPanelOutputs));
    check_linear(layer.down, shape_.intermediate_size, shape_.hidden_size);
    require(layer.attention_norm.size() == shape_.hidden_size &&
                layer.mlp_norm.size() == shape_.hidden_size,
            "a norm has the wrong size");
    const auto fits_head = [&](const std::vector<float>& weight) {
      return weight.empty() || weight.size() == heads.head_dim;
    };
    require(fits_head(layer.q_norm) && fits_head(layer.k_norm), "a head's norm has a wrong size");
    const bool is_known = std::any_of(plans_.begin(), plans_.end(), [&](const auto& plan) {
      return plan.window() == layer.window;
    });
    if (!is_known) {
      plans_.emplace_back(heads, layer.window, kernels.attention_rows, team_.num_threads());
    }
  }
  const std::size_t widest =
      std::max({shape_.hidden_size, q_size, shape_.intermediate_size});
  const std::size_t scratch = std::max(kernels.linear_scratch_bytes(widest),
                                       kernels.attention_scratch_bytes(heads.head_dim));
  for (std::size_t thread = 0; thread < team_.num_threads(); ++thread) {
    scratch_.emplace_back(scratch);
  }
  block_sums_ = Buffer(kFewRows * round_up(widest, kBlockInputs) / kBlockInputs * sizeof(float));
}

void DenseDecoder::reserve(std::size_t num_tokens) {
  if (num_tokens <= capacity_) return;
  capacity_ = round_up(num_tokens, kRowPad);
  const Heads& heads = shape_.heads;
  const std::size_t qkv = (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim;
  x_ = Buffer(capacity_ * shape_.hidden_size * sizeof(float));
  normed_ = Buffer(capacity_ * hidden_stride_ * kernels_.act_bytes);
  // Holds the sampled rows of x for a moment, as q_ does those of attended_.
  qkv_ = Buffer(capacity_ * std::max(qkv, shape_.hidden_size) * sizeof(float));
  q_ = Buffer(capacity_ * q_stride_ * kernels_.act_bytes);
  attended_ = Buffer(capacity_ * q_stride_ * kernels_.act_bytes);
  inner_ = Buffer(capacity_ * inner_stride_ * kernels_.act_bytes);
  cos_sin_ = Buffer(capacity_ * heads.head_dim * sizeof(float));
  places_ = Buffer(2 * capacity_ * sizeof(std::int32_t));
}

// Angles, pages and slots of all tokens, and the division of attention.
void DenseDecoder::place(const Batch& batch, const PageView& view) {
  auto* page = places_.as<std::int32_t>();
  auto* slot = page + capacity_;
  const std::size_t half = shape_.heads.head_dim / 2;
  for (const Span& span : batch.spans) {
    for (std::size_t i = 0; i < span.num_tokens; ++i) {
      const std::size_t row = span.first_token + i, position = span.start + i;
      page[row] = span.pages[position / view.block_tokens];
      slot[row] = static_cast<std::int32_t>(position % view.block_tokens);
      float* angles = cos_sin_.as<float>() + row * 2 * half;
      for (std::size_t d = 0; d < half; ++d) {
        const float angle = static_cast<float>(position) * shape_.rope_frequencies[d];
        angles[d] = std::cos(angle) * shape_.rope_magnitude;
        angles[half + d] = std::sin(angle) * shape_.rope_magnitude;
      }
    }
  }
  for (AttentionPlan& plan : plans_) plan.make(batch.spans);
}

void DenseDecoder::norm(const float* x, const std::vector<float>& weight, std::size_t rows) {
  const NormCall call{x,
                      shape_.hidden_size,
                      shape_.hidden_size,
                      weight.data(),
                      shape_.norm_epsilon,
                      normed_.data(),
                      hidden_stride_};
  team_.run((rows + kRowsATask - 1) / kRowsATask, [&](std::size_t task, std::size_t) {
    kernels_.rms_norm(call, {task * kRowsATask, std::min(rows, (task + 1) * kRowsATask)});
  });
}

void DenseDecoder::multiply(const Linear& linear, const void* x, std::size_t x_stride,
                            std::size_t rows, Epilogue epilogue, void* out,
                            std::size_t out_stride) {
  LinearCall call{{}, nullptr, x, x_stride, nullptr, epilogue, out, out_stride};
  const std::size_t num_inputs = linear.parts.front()->weights().num_inputs;
  std::size_t row_block = rows;
  if (rows <= kFewRows) {
    kernels_.sum_blocks(x, x_stride, num_inputs, {0, rows}, block_sums_.as<float>());
    call.block_sums = block_sums_.as<float>();
  } else {
    const std::size_t fitting = kRowBlockBytes / (x_stride * kernels_.act_bytes);
    row_block = std::max<std::size_t>(fitting / kRowPad, 1) * kRowPad;
  }
  parts_.clear();
  for (std::uint32_t matrix = 0; matrix < linear.parts.size(); ++matrix) {
    const std::size_t pairs = linear.parts[matrix]->weights().num_pairs();
    for (std::uint32_t pair = 0; pair < pairs; ++pair) parts_.push_back({matrix, pair});
  }
  const std::size_t num_blocks = (rows + row_block - 1) / row_block;
  const std::size_t wanted = kChunksAThread * team_.num_threads();
  const std::size_t chunk = std::max<std::size_t>(1, parts_.size() / wanted);
  const std::size_t num_chunks = (parts_.size() + chunk - 1) / chunk;
  team_.run(num_blocks * num_chunks, [&](std::size_t task, std::size_t thread) {
    const std::size_t first = task % num_chunks * chunk, row = task / num_chunks * row_block;
    multiply_parts(linear, parts_, {first, std::min(first + chunk, parts_.size())}, call,
                   {row, std::min(row + row_block, rows)}, thread);
  });
}

void DenseDecoder::multiply_parts(const Linear& linear, const std::vector<Part>& parts,
                                  Rows chosen, LinearCall call, Rows rows, std::size_t thread) {
  for (std::size_t index = chosen.begin; index < chosen.end; ++index) {
    std::size_t before = 0;
    for (std::uint32_t matrix = 0; matrix < parts[index].matrix; ++matrix) {
      before += linear.parts[matrix]->weights().num_outputs;
    }
    LinearCall own = call;
    own.weights = linear.parts[parts[index].matrix]->weights();
    own.bias = linear.bias.empty() ? nullptr : linear.bias.data() + before;
    if (call.epilogue != Epilogue::kSwiGlu) own.out = static_cast<float*>(call.out) + before;
    kernels_.linear(own, {parts[index].pair, parts[index].pair + 1u}, rows,
                    scratch_[thread].data());
  }
}

void DenseDecoder::attend(const DecoderLayer& layer, const PageView& view) {
  const AttentionPlan& plan = *std::find_if(plans_.begin(), plans_.end(), [&](const auto& one) {
    return one.window() == layer.window;
  });
  const AttentionCall call{shape_.heads, view,     shape_.attention_scale, layer.window,
                           nullptr,      q_.data(), q_stride_,              attended_.data(),
                           q_stride_,    nullptr};
  const auto& tasks = plan.tasks();
  team_.run(tasks.size(), [&](std::size_t index, std::size_t thread) {
    kernels_.attention(call, tasks[index], scratch_[thread].data());
  });
  const auto& joins = plan.joins();
  for (const Rows& join : joins) {
    kernels_.merge(call, plan.split_tasks().data() + join.begin, join.count());
  }
}

// Keys and values of all rows, and what the rows attend to; `attended_` is not needed of a last
// layer from which nothing is sampled.
void DenseDecoder::mix(std::size_t index, const Batch& batch, const KVPages& pages) {
  const DecoderLayer& layer = layers_[index];
  const std::size_t rows = batch.num_tokens;
  const std::size_t qkv_width = layer.qkv.num_outputs();
  PageView view = pages.view;
  view.base += pages.layer_offsets[index];
  Timer timer(*this);
  norm(x_.as<float>(), layer.attention_norm, rows);
  timer.end(Phase::kNorm);
  multiply(layer.qkv, normed_.data(), hidden_stride_, rows, Epilogue::kStore, qkv_.data(),
           qkv_width);
  timer.end(Phase::kQkv);
  const auto data_or_null = [](const std::vector<float>& values) {
    return values.empty() ? nullptr : values.data();
  };
  const PositionCall position{shape_.heads,
                              view,
                              qkv_.as<float>(),
                              data_or_null(layer.q_norm),
                              data_or_null(layer.k_norm),
                              shape_.norm_epsilon,
                              cos_sin_.as<float>(),
                              places_.as<std::int32_t>(),
                              places_.as<std::int32_t>() + capacity_,
                              q_.data(),
                              q_stride_};
  team_.run((rows + kRowsATask - 1) / kRowsATask, [&](std::size_t task, std::size_t) {
    kernels_.position(position, {task * kRowsATask, std::min(rows, (task + 1) * kRowsATask)});
  });
  timer.end(Phase::kPosition);
  if (index + 1 < layers_.size() || batch.num_sampled > 0) attend(layer, view);
  timer.end(Phase::kAttention);
}

// Moves the sampled rows of what a layer has mixed to the front: nobody reads the others.
void DenseDecoder::keep_sampled(const Batch& batch) {
  const std::size_t x_bytes = shape_.hidden_size * sizeof(float);
  const std::size_t attended_bytes = q_stride_ * kernels_.act_bytes;
  for (std::size_t i = 0; i < batch.num_sampled; ++i) {
    const auto row = static_cast<std::size_t>(batch.sampled[i]);
    std::memcpy(qkv_.data() + i * x_bytes, x_.data() + row * x_bytes, x_bytes);
    std::memcpy(q_.data() + i * attended_bytes, attended_.data() + row * attended_bytes,
                attended_bytes);
  }
  std::memcpy(x_.data(), qkv_.data(), batch.num_sampled * x_bytes);
  std::memcpy(attended_.data(), q_.data(), batch.num_sampled * attended_bytes);
}

// Adds what the first rows attended to and their MLP to the residual stream.
void DenseDecoder::transform(const DecoderLayer& layer, std::size_t rows) {
  Timer timer(*this);
  multiply(layer.o, attended_.data(), q_stride_, rows, Epilogue::kAdd, x_.data(),
           shape_.hidden_size);
  timer.end(Phase::kO);
  norm(x_.as<float>(), layer.mlp_norm, rows);
  timer.end(Phase::kNorm);
  multiply(layer.gate_up, normed_.data(), hidden_stride_, rows, Epilogue::kSwiGlu, inner_.data(),
           inner_stride_);
  timer.end(Phase::kGateUp);
  multiply(layer.down, inner_.data(), inner_stride_, rows, Epilogue::kAdd, x_.data(),
           shape_.hidden_size);
  timer.end(Phase::kDown);
}

void DenseDecoder::run_head(std::size_t rows, float* logits, std::int32_t* choices) {
  Timer timer(*this);
  norm(x_.as<float>(), norm_, rows);
  multiply(head_, normed_.data(), hidden_stride_, rows, Epilogue::kStore, logits,
           shape_.vocab_size);
  timer.end(Phase::kHead);
  team_.run(rows, [&](std::size_t row, std::size_t) {
    choices[row] = kernels_.choose(logits + row * shape_.vocab_size, shape_.vocab_size);
  });
  timer.end(Phase::kChoose);
}

void DenseDecoder::forward(const Batch& batch, const KVPages& pages, float* logits,
                           std::int32_t* choices) {
  reserve(batch.num_tokens);
  Timer timer(*this);
  place(batch, pages.view);
  team_.run((batch.num_tokens + kRowsATask - 1) / kRowsATask, [&](std::size_t task, std::size_t) {
    const Rows rows{task * kRowsATask, std::min(batch.num_tokens, (task + 1) * kRowsATask)};
    kernels_.embed(embedding_->weights(), batch.token_ids, rows, x_.as<float>(),
                   shape_.hidden_size);
  });
  timer.end(Phase::kEmbed);
  for (std::size_t layer = 0; layer + 1 < layers_.size(); ++layer) {
    mix(layer, batch, pages);
    transform(layers_[layer], batch.num_tokens);
  }
  mix(layers_.size() - 1, batch, pages);
  if (batch.num_sampled == 0) return;
  keep_sampled(batch);
  transform(layers_.back(), batch.num_sampled);
  run_head(batch.num_sampled, logits, choices);
}

std::array<double, kNumPhases> DenseDecoder::take_seconds() {
  return std::exchange(seconds_, {});
}

}  // namespace okibi
