// Single kernels, for tests against their references and for benchmarks.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <optional>

#include "../decoder/attention_plan.h"
#include "../kernels/bfloat16.h"
#include "../memory/packed_matrix.h"
#include "../threads/thread_team.h"
#include "bindings.h"

namespace okibi {
namespace {

// Activations made from floats and turned back into them.
class Acts {
 public:
  Acts(const KernelSet& kernels, std::size_t rows, std::size_t width)
      : bytes_(kernels.act_bytes),
        stride_((width + 31) / 32 * 32 + 32),
        memory_((rows + kRowPad) / kRowPad * kRowPad * stride_ * bytes_) {}

  void put(std::size_t row, std::size_t column, float value) {
    const std::size_t at = row * stride_ + column;
    if (bytes_ == 4) {
      memory_.as<float>()[at] = value;
    } else {
      memory_.as<std::uint16_t>()[at] = float_to_bf16(value);
    }
  }
  float get(std::size_t row, std::size_t column) const {
    const std::size_t at = row * stride_ + column;
    return bytes_ == 4 ? memory_.as<float>()[at] : bf16_to_float(memory_.as<std::uint16_t>()[at]);
  }
  void* data() const { return memory_.data(); }
  std::size_t stride() const { return stride_; }

 private:
  std::size_t bytes_, stride_;
  Buffer memory_;
};

Acts acts_of(const KernelSet& kernels, const Array<const float, 2>& x) {
  Acts acts(kernels, x.shape(0), x.shape(1));
  for (std::size_t row = 0; row < x.shape(0); ++row) {
    for (std::size_t column = 0; column < x.shape(1); ++column) {
      acts.put(row, column, x(row, column));
    }
  }
  return acts;
}

std::vector<std::string> levels() {
  std::vector<std::string> names;
  for (Level level : supported_levels()) {
    if (kernels_of(level) != nullptr) names.emplace_back(level_name(level));
  }
  return names;
}

// out += x W^T for the epilogue "add", else out = x W^T or silu(gate) * up.
void linear(const std::string& level, const PackedMatrix& matrix, const Array<const float, 2>& x,
            const std::string& epilogue, const Array<float, 2>& out) {
  const KernelSet& kernels = kernels_named(level);
  const Weights& weights = matrix.weights();
  const bool gates = epilogue == "swiglu";
  require(x.shape(1) == weights.num_inputs, "the rows have the wrong number of inputs");
  require(out.shape(0) == x.shape(0), "the output has the wrong number of rows");
  require(out.shape(1) == (gates ? weights.num_outputs / 2 : weights.num_outputs),
          "the output has the wrong number of columns");
  const std::size_t rows = x.shape(0);
  const Acts acts = acts_of(kernels, x);
  Acts gated(kernels, rows, out.shape(1));
  LinearCall call{weights, nullptr, acts.data(), acts.stride(), nullptr, Epilogue::kStore,
                  out.data(), out.shape(1)};
  if (epilogue == "add") call.epilogue = Epilogue::kAdd;
  if (gates) {
    call.epilogue = Epilogue::kSwiGlu;
    call.out = gated.data();
    call.out_stride = gated.stride();
  }
  std::vector<float> block_sums(kFewRows * weights.num_blocks());
  if (rows <= kFewRows) {
    kernels.sum_blocks(acts.data(), acts.stride(), weights.num_inputs, {0, rows},
                       block_sums.data());
    call.block_sums = block_sums.data();
  }
  const Buffer scratch(kernels.linear_scratch_bytes(weights.num_inputs));
  kernels.linear(call, {0, weights.num_pairs()}, {0, rows}, scratch.data());
  for (std::size_t row = 0; gates && row < rows; ++row) {
    for (std::size_t column = 0; column < out.shape(1); ++column) {
      out(row, column) = gated.get(row, column);
    }
  }
}

void rms_norm(const std::string& level, const Array<const float, 2>& x,
              const Array<const float, 1>& weight, float epsilon, const Array<float, 2>& out) {
  const KernelSet& kernels = kernels_named(level);
  require(weight.shape(0) == x.shape(1), "the weight has the wrong size");
  require(out.shape(0) == x.shape(0) && out.shape(1) == x.shape(1), "the output has another shape");
  Acts acts(kernels, x.shape(0), x.shape(1));
  kernels.rms_norm({x.data(), x.shape(1), x.shape(1), weight.data(), epsilon, acts.data(),
                    acts.stride()},
                   {0, x.shape(0)});
  for (std::size_t row = 0; row < x.shape(0); ++row) {
    for (std::size_t column = 0; column < x.shape(1); ++column) {
      out(row, column) = acts.get(row, column);
    }
  }
}

std::int32_t choose(const std::string& level, const Array<const float, 1>& logits) {
  require(logits.shape(0) > 0, "there is nothing to choose from");
  return kernels_named(level).choose(logits.data(), logits.shape(0));
}

// q and out float [tokens][heads * head_dim]; spans as in DenseDecoder.forward.
void paged_attention(const std::string& level, const Array<const float, 2>& q,
                     const Array<std::uint8_t, 2>& arena, std::size_t offset,
                     const std::string& dtype, std::size_t block_tokens, std::size_t num_kv_heads,
                     std::size_t head_dim, const Array<const std::int32_t, 2>& block_table,
                     const Array<const std::int64_t, 2>& spans, float scale, std::size_t window,
                     std::optional<Array<const float, 1>> sinks, std::size_t num_threads,
                     const Array<float, 2>& out, const Array<float, 2>& lse) {
  const KernelSet& kernels = kernels_named(level);
  const std::size_t num_heads = q.shape(1) / head_dim;
  const Heads heads{num_heads, num_kv_heads, head_dim};
  require(lse.shape(0) == q.shape(0) && lse.shape(1) == num_heads, "lse has the wrong shape");
  require(out.shape(0) == q.shape(0) && out.shape(1) == q.shape(1), "out has the wrong shape");
  std::vector<Span> batch;
  for (std::size_t i = 0; i < spans.shape(0); ++i) {
    batch.push_back({&block_table(spans(i, 0), 0), static_cast<std::size_t>(spans(i, 1)),
                     static_cast<std::size_t>(spans(i, 2)), static_cast<std::size_t>(spans(i, 3))});
  }
  AttentionPlan plan(heads, window, kernels.attention_rows, num_threads);
  plan.make(batch);
  const Acts queries = acts_of(kernels, q);
  const Acts results(kernels, q.shape(0), q.shape(1));
  const PageView pages{arena.data() + offset, arena.shape(1), block_tokens, kv_type_named(dtype)};
  const AttentionCall call{heads,
                           pages,
                           scale,
                           window,
                           sinks ? sinks->data() : nullptr,
                           queries.data(),
                           queries.stride(),
                           results.data(),
                           results.stride(),
                           lse.data()};
  const Buffer scratch(kernels.attention_scratch_bytes(head_dim));
  for (const AttentionTask& task : plan.tasks()) kernels.attention(call, task, scratch.data());
  for (const Rows& join : plan.joins()) {
    kernels.merge(call, plan.split_tasks().data() + join.begin, join.count());
  }
  for (std::size_t row = 0; row < q.shape(0); ++row) {
    for (std::size_t column = 0; column < q.shape(1); ++column) {
      out(row, column) = results.get(row, column);
    }
  }
}

// How often each task of one loop after another ran, for tests of the team.
std::vector<std::size_t> run_loops(std::size_t num_threads, const std::vector<std::size_t>& loops) {
  ThreadTeam team(num_threads);
  std::vector<std::size_t> wrong;
  for (std::size_t num_tasks : loops) {
    std::vector<std::atomic<int>> counts(num_tasks);
    team.run(num_tasks, [&](std::size_t task, std::size_t) { counts[task].fetch_add(1); });
    std::size_t missed = 0;
    for (const auto& count : counts) missed += count.load() != 1;
    wrong.push_back(missed);
  }
  return wrong;
}

}  // namespace

void bind_kernels(nb::module_& m) {
  m.def("kernel_levels", &levels);
  m.def("kernel_linear", &linear, nb::arg("level"), nb::arg("matrix"), nb::arg("x"),
        nb::arg("epilogue"), nb::arg("out"));
  m.def("kernel_rms_norm", &rms_norm, nb::arg("level"), nb::arg("x"), nb::arg("weight"),
        nb::arg("epsilon"), nb::arg("out"));
  m.def("kernel_choose", &choose, nb::arg("level"), nb::arg("logits"));
  m.def("kernel_paged_attention", &paged_attention, nb::arg("level"), nb::arg("q"),
        nb::arg("arena"), nb::arg("offset"), nb::arg("dtype"), nb::arg("block_tokens"),
        nb::arg("num_kv_heads"), nb::arg("head_dim"), nb::arg("block_table"), nb::arg("spans"),
        nb::arg("scale"), nb::arg("window"), nb::arg("sinks").none(), nb::arg("num_threads"),
        nb::arg("out"), nb::arg("lse"));
  m.def("run_loops", &run_loops, nb::arg("num_threads"), nb::arg("loops"),
        nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace okibi
