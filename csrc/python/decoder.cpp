#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>

#include "../decoder/dense_decoder.h"
#include "bindings.h"

namespace okibi {
namespace {

using Floats = std::vector<float>;
using Matrices = std::vector<std::shared_ptr<PackedMatrix>>;

// A decoder together with the arena it reads and writes.
class BoundDecoder {
 public:
  BoundDecoder(const std::string& level, std::size_t num_threads, DecoderShape shape,
               std::vector<DecoderLayer> layers, std::shared_ptr<PackedMatrix> embedding,
               Floats norm, std::shared_ptr<PackedMatrix> head)
      : shape_(shape),
        num_layers_(layers.size()),
        decoder_(kernels_named(level), num_threads, std::move(shape), std::move(layers),
                 std::move(embedding), std::move(norm), std::move(head)) {}

  void bind_pages(Array<std::uint8_t, 2> arena, std::size_t block_tokens, const std::string& dtype,
                  const std::vector<std::size_t>& layer_offsets) {
    const KVType type = kv_type_named(dtype);
    const Heads& heads = shape_.heads;
    const std::size_t slice =
        2 * heads.num_kv_heads * block_tokens * heads.head_dim * kv_bytes(type);
    require(layer_offsets.size() == num_layers_, "every layer needs its place in a page");
    for (std::size_t offset : layer_offsets) {
      require(offset + slice <= arena.shape(1), "a layer does not fit in a page");
    }
    pages_ = {{arena.data(), arena.shape(1), block_tokens, type}, layer_offsets};
    arena_ = std::move(arena);
  }

  void forward(const Array<const std::int32_t, 1>& token_ids,
               const Array<const std::int64_t, 2>& spans,
               const Array<const std::int32_t, 2>& block_table,
               const Array<const std::int32_t, 1>& sampled, const Array<float, 2>& logits,
               const Array<std::int32_t, 1>& choices) {
    require(pages_.view.base != nullptr, "no pages are bound");
    Batch batch{token_ids.data(), {}, token_ids.shape(0), sampled.data(), sampled.shape(0)};
    read_spans(spans, block_table, batch);
    check_ids(batch);
    require(logits.shape(0) == batch.num_sampled && logits.shape(1) == shape_.vocab_size,
            "the logits have the wrong shape");
    require(choices.shape(0) == batch.num_sampled, "there must be a choice for every row");
    const nb::gil_scoped_release released;
    decoder_.forward(batch, pages_, logits.data(), choices.data());
  }

  nb::dict take_seconds() {
    const auto seconds = decoder_.take_seconds();
    nb::dict named;
    for (std::size_t i = 0; i < kNumPhases; ++i) {
      named[phase_name(static_cast<Phase>(i))] = seconds[i];
    }
    return named;
  }

 private:
  // Rows of (row of the table, first token, number of tokens, position of the first).
  void read_spans(const Array<const std::int64_t, 2>& spans,
                  const Array<const std::int32_t, 2>& block_table, Batch& batch) const {
    require(spans.shape(1) == 4, "a span is four numbers");
    std::size_t covered = 0;
    for (std::size_t i = 0; i < spans.shape(0); ++i) {
      const std::int64_t row = spans(i, 0), length = spans(i, 2), start = spans(i, 3);
      require(row >= 0 && row < static_cast<std::int64_t>(block_table.shape(0)),
              "a span names no row of the table");
      require(static_cast<std::size_t>(spans(i, 1)) == covered && length > 0 && start >= 0,
              "the spans do not cover the tokens one after another");
      const auto end = static_cast<std::size_t>(start + length);
      require(end <= block_table.shape(1) * pages_.view.block_tokens,
              "a span goes beyond the table");
      check_pages(&block_table(row, 0), end);
      batch.spans.push_back({&block_table(row, 0), covered, static_cast<std::size_t>(length),
                             static_cast<std::size_t>(start)});
      covered += static_cast<std::size_t>(length);
    }
    require(covered == batch.num_tokens, "the spans do not cover the tokens");
  }

  void check_pages(const std::int32_t* pages, std::size_t num_tokens) const {
    const std::size_t block = pages_.view.block_tokens;
    for (std::size_t i = 0; i < (num_tokens + block - 1) / block; ++i) {
      require(pages[i] >= 0 && static_cast<std::size_t>(pages[i]) < arena_.shape(0),
              "the table names a page that does not exist");
    }
  }

  void check_ids(const Batch& batch) const {
    for (std::size_t i = 0; i < batch.num_tokens; ++i) {
      require(batch.token_ids[i] >= 0 &&
                  static_cast<std::size_t>(batch.token_ids[i]) < shape_.vocab_size,
              "a token id is outside of the vocabulary");
    }
    for (std::size_t i = 0; i < batch.num_sampled; ++i) {
      require(batch.sampled[i] >= 0 &&
                  static_cast<std::size_t>(batch.sampled[i]) < batch.num_tokens,
              "a sampled row is no token of the batch");
    }
  }

  DecoderShape shape_;
  std::size_t num_layers_;
  DenseDecoder decoder_;
  Array<std::uint8_t, 2> arena_;
  KVPages pages_{};
};

DecoderShape make_shape(std::size_t hidden_size, std::size_t intermediate_size,
                        std::size_t vocab_size, std::size_t num_heads, std::size_t num_kv_heads,
                        std::size_t head_dim, float norm_epsilon, Floats rope_frequencies,
                        float rope_magnitude) {
  return {hidden_size,
          intermediate_size,
          vocab_size,
          {num_heads, num_kv_heads, head_dim},
          norm_epsilon,
          1.0f / std::sqrt(static_cast<float>(head_dim)),
          std::move(rope_frequencies),
          rope_magnitude};
}

}  // namespace

void bind_decoder(nb::module_& m) {
  nb::class_<DecoderShape>(m, "DecoderShape")
      .def(nb::new_(&make_shape), nb::kw_only(), nb::arg("hidden_size"),
           nb::arg("intermediate_size"), nb::arg("vocab_size"), nb::arg("num_heads"),
           nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("norm_epsilon"),
           nb::arg("rope_frequencies"), nb::arg("rope_magnitude"));
  nb::class_<Linear>(m, "Linear")
      .def(nb::new_([](Matrices parts, Floats bias) {
             require(!parts.empty(), "a product needs a matrix");
             return Linear{std::move(parts), std::move(bias)};
           }),
           nb::arg("parts"), nb::arg("bias"));
  nb::class_<DecoderLayer>(m, "DecoderLayer")
      .def(nb::new_([](Floats attention_norm, Linear qkv, Floats q_norm, Floats k_norm, Linear o,
                       Floats mlp_norm, Linear gate_up, Linear down, std::size_t window) {
             return DecoderLayer{std::move(attention_norm), std::move(mlp_norm), std::move(q_norm),
                                 std::move(k_norm),         std::move(qkv),      std::move(o),
                                 std::move(gate_up),        std::move(down),     window};
           }),
           nb::kw_only(), nb::arg("attention_norm"), nb::arg("qkv"), nb::arg("q_norm"),
           nb::arg("k_norm"), nb::arg("o"), nb::arg("mlp_norm"), nb::arg("gate_up"),
           nb::arg("down"), nb::arg("window"));
  nb::class_<BoundDecoder>(m, "DenseDecoder")
      .def(nb::init<const std::string&, std::size_t, DecoderShape, std::vector<DecoderLayer>,
                    std::shared_ptr<PackedMatrix>, Floats, std::shared_ptr<PackedMatrix>>(),
           nb::arg("level"), nb::arg("num_threads"), nb::arg("shape"), nb::arg("layers"),
           nb::arg("embedding"), nb::arg("norm"), nb::arg("head"))
      .def("bind_pages", &BoundDecoder::bind_pages, nb::arg("arena"), nb::arg("block_tokens"),
           nb::arg("dtype"), nb::arg("layer_offsets"))
      .def("forward", &BoundDecoder::forward, nb::arg("token_ids"), nb::arg("spans"),
           nb::arg("block_table"), nb::arg("sampled"), nb::arg("logits"), nb::arg("choices"))
      .def("take_seconds", &BoundDecoder::take_seconds);
}

}  // namespace okibi
