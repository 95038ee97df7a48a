#include "thread_team.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace okibi {
namespace {

constexpr int kSpins = 4000;
constexpr std::uint64_t kCountBits = 32;
constexpr std::uint64_t kCountMask = (std::uint64_t{1} << kCountBits) - 1;

void pause() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

std::uint32_t loop_of(std::uint64_t state) {
  return static_cast<std::uint32_t>(state >> kCountBits);
}

}  // namespace

ThreadTeam::ThreadTeam(std::size_t num_threads) {
  for (std::size_t thread = 1; thread < num_threads; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadTeam::~ThreadTeam() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    is_closing_ = true;
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadTeam::run_erased(std::size_t num_tasks, Erased task, const void* context) {
  if (workers_.empty() || num_tasks == 1) {
    for (std::size_t index = 0; index < num_tasks; ++index) task(context, index, 0);
    return;
  }
  num_done_.store(0, std::memory_order_relaxed);
  num_tasks_.store(num_tasks, std::memory_order_relaxed);
  task_.store(task, std::memory_order_relaxed);
  context_.store(context, std::memory_order_relaxed);
  const std::uint32_t loop = loop_of(state_.load(std::memory_order_relaxed)) + 1;
  state_.store((static_cast<std::uint64_t>(loop) << kCountBits) | num_tasks);
  if (num_asleep_.load() > 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    wake_.notify_all();
  }
  help(loop, 0);
  for (int spin = 0; num_done_.load(std::memory_order_acquire) < num_tasks; ++spin) {
    spin < kSpins ? pause() : std::this_thread::yield();
  }
}

bool ThreadTeam::take(std::uint32_t loop, std::size_t* index) {
  std::uint64_t state = state_.load(std::memory_order_acquire);
  while (loop_of(state) == loop && (state & kCountMask) > 0) {
    if (state_.compare_exchange_weak(state, state - 1, std::memory_order_acq_rel)) {
      *index = num_tasks_.load(std::memory_order_relaxed) - (state & kCountMask);
      return true;
    }
  }
  return false;
}

void ThreadTeam::help(std::uint32_t loop, std::size_t thread) {
  std::size_t index;
  while (take(loop, &index)) {
    const Erased task = task_.load(std::memory_order_relaxed);
    task(context_.load(std::memory_order_relaxed), index, thread);
    num_done_.fetch_add(1, std::memory_order_release);
  }
}

void ThreadTeam::work(std::size_t thread) {
  std::uint32_t seen = 0;
  while (await_loop(seen)) {
    seen = loop_of(state_.load(std::memory_order_acquire));
    help(seen, thread);
  }
}

// Waits for a loop other than `seen`; false when the team closes.
bool ThreadTeam::await_loop(std::uint32_t seen) {
  const auto has_news = [&] { return is_closing_.load() || loop_of(state_.load()) != seen; };
  for (int spin = 0; spin < kSpins && !has_news(); ++spin) pause();
  if (!has_news()) {
    std::unique_lock<std::mutex> lock(mutex_);
    num_asleep_.fetch_add(1);
    wake_.wait(lock, has_news);
    num_asleep_.fetch_sub(1);
  }
  return !is_closing_.load();
}

}  // namespace okibi
