// Divides a batch's attention into tasks of about the same work.
#pragma once

#include <cstdint>
#include <vector>

#include "../kernels/kernel_set.h"
#include "../memory/buffer.h"

namespace okibi {

// A run of tokens of one sequence.
struct Span {
  const std::int32_t* pages;  // of the sequence's blocks
  std::size_t first_token;    // in the batch
  std::size_t num_tokens;
  std::size_t start;  // position of the first token
};

class AttentionPlan {
 public:
  AttentionPlan(const Heads& heads, std::size_t window, std::size_t task_rows,
                std::size_t num_threads)
      : heads_(heads), window_(window), task_rows_(task_rows), num_threads_(num_threads) {}

  std::size_t window() const { return window_; }
  void make(const std::vector<Span>& spans);

  // The heaviest first.
  const std::vector<AttentionTask>& tasks() const { return tasks_; }

  // The tasks [begin, end) of split_tasks() are over the same tokens.
  const std::vector<Rows>& joins() const { return joins_; }
  const std::vector<AttentionTask>& split_tasks() const { return split_tasks_; }

 private:
  std::size_t first_seen(std::size_t position) const;
  std::size_t keys_a_task(const std::vector<Span>& spans) const;
  void add(const Span& span, std::size_t token, std::size_t num_tokens, std::size_t most_keys);
  void give_memory();

  Heads heads_;
  std::size_t window_, task_rows_, num_threads_;
  std::vector<AttentionTask> tasks_, split_tasks_;
  std::vector<Rows> joins_;
  Buffer partials_;
};

}  // namespace okibi
