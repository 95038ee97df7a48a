// A few threads that share the tasks of one loop after another.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace okibi {

// The caller works too, and takes on whatever no worker has begun: a worker that the operating
// system wakes late delays nobody. Idle workers spin briefly, as the next loop of a forward pass
// is microseconds away, and then sleep. One caller at a time; tasks must not throw.
class ThreadTeam {
 public:
  // `num_threads` counts the caller.
  explicit ThreadTeam(std::size_t num_threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  std::size_t num_threads() const { return workers_.size() + 1; }

  // Calls task(index, thread) for every index below num_tasks; thread is below num_threads().
  template <typename Task>
  void run(std::size_t num_tasks, const Task& task) {
    if (num_tasks == 0) return;
    run_erased(
        num_tasks,
        [](const void* context, std::size_t index, std::size_t thread) {
          (*static_cast<const Task*>(context))(index, thread);
        },
        &task);
  }

 private:
  using Erased = void (*)(const void* context, std::size_t index, std::size_t thread);

  void run_erased(std::size_t num_tasks, Erased task, const void* context);
  void work(std::size_t thread);
  bool await_loop(std::uint32_t seen);
  bool take(std::uint32_t loop, std::size_t* index);
  void help(std::uint32_t loop, std::size_t thread);

  // The number of the current loop and how many of its tasks nobody has begun, in one word: who
  // takes a task knows that its loop has not ended, so that the fields below are the loop's.
  std::atomic<std::uint64_t> state_{0};
  std::atomic<std::size_t> num_tasks_{0};
  std::atomic<Erased> task_{nullptr};
  std::atomic<const void*> context_{nullptr};
  std::atomic<std::size_t> num_done_{0};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<std::size_t> num_asleep_{0};
  std::atomic<bool> is_closing_{false};
  std::vector<std::thread> workers_;
};

}  // namespace okibi
