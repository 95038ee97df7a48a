#include "attention_plan.h"

#include <algorithm>

namespace okibi {
namespace {

// Fewer keys are not worth joining results for; parts are multiples of this.
constexpr std::size_t kLeastKeys = 512;
constexpr std::size_t kTasksAThread = 4;

std::size_t work(const AttentionTask& task) {
  return (task.kv_end - task.kv_begin) * (task.num_tokens + 1);
}

}  // namespace

std::size_t AttentionPlan::first_seen(std::size_t position) const {
  return window_ == 0 || position + 1 < window_ ? 0 : position + 1 - window_;
}

std::size_t AttentionPlan::keys_a_task(const std::vector<Span>& spans) const {
  std::size_t total = 0;
  for (const Span& span : spans) {
    total += heads_.num_kv_heads * (span.start + span.num_tokens - first_seen(span.start));
  }
  const std::size_t share = total / (kTasksAThread * num_threads_);
  return (share + kLeastKeys - 1) / kLeastKeys * kLeastKeys + kLeastKeys;
}

void AttentionPlan::make(const std::vector<Span>& spans) {
  tasks_.clear();
  split_tasks_.clear();
  joins_.clear();
  const std::size_t most_tokens = std::max<std::size_t>(1, task_rows_ / heads_.group());
  const std::size_t most_keys = keys_a_task(spans);
  for (const Span& span : spans) {
    for (std::size_t token = 0; token < span.num_tokens; token += most_tokens) {
      add(span, token, std::min(most_tokens, span.num_tokens - token), most_keys);
    }
  }
  give_memory();
  std::stable_sort(tasks_.begin(), tasks_.end(), [](const auto& a, const auto& b) {
    return work(a) > work(b);
  });
}

void AttentionPlan::add(const Span& span, std::size_t token, std::size_t num_tokens,
                        std::size_t most_keys) {
  const std::size_t start = span.start + token, end = start + num_tokens;
  const std::size_t begin = first_seen(start);
  const bool splits = num_threads_ > 1 && span.num_tokens == num_tokens && end - begin > most_keys;
  for (std::size_t kv_head = 0; kv_head < heads_.num_kv_heads; ++kv_head) {
    AttentionTask task{span.pages, span.first_token + token, num_tokens, start,
                       kv_head,    begin,                    end,        nullptr};
    if (!splits) {
      tasks_.push_back(task);
      continue;
    }
    const std::size_t first = split_tasks_.size();
    for (std::size_t at = begin; at < end; at += most_keys) {
      task.kv_begin = at;
      task.kv_end = std::min(at + most_keys, end);
      split_tasks_.push_back(task);
    }
    joins_.push_back({first, split_tasks_.size()});
  }
}

void AttentionPlan::give_memory() {
  std::size_t total = 0;
  const auto size_of = [&](const AttentionTask& task) {
    return task.num_tokens * heads_.group() * (heads_.head_dim + 1);
  };
  for (const AttentionTask& task : split_tasks_) total += size_of(task);
  if (total * sizeof(float) > partials_.size()) partials_ = Buffer(2 * total * sizeof(float));
  float* at = partials_.as<float>();
  for (AttentionTask& task : split_tasks_) {
    task.partial = at;
    at += size_of(task);
    tasks_.push_back(task);
  }
}

}  // namespace okibi
