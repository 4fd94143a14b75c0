// The process-wide thread pool.
//
// A job is published in one atomic word: the number of tickets, which workers take to join, and the
// number of joined workers. The caller participates, then withdraws the remaining tickets, so that
// it never waits for workers that have not started. Workers spin briefly between jobs, because the
// kernels of a model follow each other within microseconds, and then sleep.
//
// The number of workers is chosen per job: at most what the call requests, and such that they and
// all threads in calls of executables stay within the limit of the process.
//
// Each participant has a share of consecutive tiles, processed in order, because kernels prefetch
// the weights of the next tile. Participants that finish early steal chunks from other shares.
#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "abi.h"
#include "cpu_count.h"
#include "guard.h"
#include "interrupts.h"
#include "running_call.h"

#ifdef __linux__
#include <sched.h>
#include <unistd.h>
#endif

namespace relax_mlir {
namespace {

constexpr auto kSpinTime = std::chrono::microseconds(30);
constexpr size_t kAlignment = 64;
constexpr int64_t kMaxShares = 64;  // with more threads, shares are shared

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Spins until `done` or the spin time is over; the clock is read every 64 turns.
template <typename Condition>
bool SpinUntil(const Condition& done) {
  const auto end = std::chrono::steady_clock::now() + kSpinTime;
  do {
    for (int i = 0; i < 64; ++i) {
      if (done()) return true;
      Pause();
    }
  } while (std::chrono::steady_clock::now() < end);
  return done();
}

// Grow-only scratch memory, one buffer per nesting level of a thread: a tile with a nested call
// keeps its own.
class Scratch {
 public:
  ~Scratch() {
    for (const Buffer& buffer : buffers_) std::free(buffer.data);
  }

  void* Get(size_t level, int64_t bytes) {
    if (bytes <= 0) return nullptr;
    if (buffers_.size() <= level) buffers_.resize(level + 1);
    Buffer& buffer = buffers_[level];
    if (buffer.bytes < bytes) {
      std::free(buffer.data);
      buffer = {};
      const size_t rounded =
          (static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment * kAlignment;
      buffer.data = std::aligned_alloc(kAlignment, rounded);
      if (buffer.data == nullptr) throw std::bad_alloc();
      buffer.bytes = bytes;
    }
    return buffer.data;
  }

 private:
  struct Buffer {
    void* data = nullptr;
    int64_t bytes = 0;
  };
  std::vector<Buffer> buffers_;
};

thread_local Scratch scratch;
thread_local size_t nesting = 0;  // depth of nested tiles of this thread

std::atomic<int32_t> chosen_threads{0};  // 0: default
std::atomic<int32_t> processors{0};      // 0: unknown

int32_t MaxThreads() {
  const int32_t chosen = chosen_threads.load(std::memory_order_relaxed);
  if (chosen > 0) return chosen;
  int32_t counted = processors.load(std::memory_order_relaxed);
  if (counted == 0) {
    counted = relax_rt2_cpu_count();
    processors.store(counted, std::memory_order_relaxed);
  }
  return counted;
}

// Number of workers that this caller may use.
int32_t SpareThreads() { return MaxThreads() - 1 - OtherRunningCalls(); }

// A range of consecutive tiles, on its own cache line.
struct alignas(kAlignment) Share {
  std::atomic<int64_t> next{0};
  int64_t end = 0;
};

struct Job {
  relax_rt2_tile tile;
  void** buffers;
  const int64_t* sizes;
  int64_t tiles;
  int64_t grain;
  int64_t scratch_bytes;
  std::atomic<int32_t> failure{kRelaxRt2Ok};
  Share* shares = nullptr;
  int64_t share_count = 0;
  GuardedRun* guard = GuardedRun::Current();  // of the publishing thread
  Alarm alarm{};

  void Run(int64_t begin, int64_t end, void* memory) {
    if (guard != nullptr) return RunGuarded(begin, end, memory);
    RunTiles(begin, end, memory);
  }

  void RunTiles(int64_t begin, int64_t end, void* memory) {
    if (!RunInterruptibly(tile, buffers, sizes, memory, begin, end, failure)) {
      Fail(kRelaxRt2Interrupted);
    }
  }

  void RunGuarded(int64_t begin, int64_t end, void* memory) {
    struct Range {
      Job* job;
      void* memory;
      int64_t begin;
      int64_t end;
      static void Call(void* range) {
        auto* self = static_cast<Range*>(range);
        self->job->RunTiles(self->begin, self->end, self->memory);
      }
    } range{this, memory, begin, end};
    if (!guard->TryCall(Range::Call, &range)) Fail(kRelaxRt2OutOfBounds);
  }

  // Calls `body` with this thread's scratch memory; catches all exceptions.
  template <typename Body>
  void Enter(const Body& body) noexcept {
    const size_t level = nesting++;
    try {
      std::optional<GuardedThread> guarded;
      if (guard != nullptr) guarded.emplace(guard);
      body(scratch.Get(level, scratch_bytes));
    } catch (const std::bad_alloc&) {
      Fail(kRelaxRt2OutOfMemory);
    } catch (...) {
      Fail(kRelaxRt2Exception);
    }
    nesting = level;
  }

  // Records the first failure, stops the distribution of chunks, and aborts kernels that poll for
  // interrupts.
  void Fail(int32_t reason) {
    int32_t none = kRelaxRt2Ok;
    if (!failure.compare_exchange_strong(none, reason, std::memory_order_relaxed)) return;
    alarm.Raise();
    for (int64_t s = 0; s < share_count; ++s) {
      shares[s].next.store(shares[s].end, std::memory_order_relaxed);
    }
  }

  bool HasFailed() const { return failure.load(std::memory_order_relaxed) != kRelaxRt2Ok; }

  // Divides the chunks evenly.
  void Divide(Share* into, int64_t count) {
    shares = into;
    share_count = count;
    const int64_t pieces = (tiles + grain - 1) / grain;
    for (int64_t s = 0; s < share_count; ++s) {
      shares[s].next.store(pieces * s / share_count * grain, std::memory_order_relaxed);
      shares[s].end = std::min(pieces * (s + 1) / share_count * grain, tiles);
    }
  }

  void RunAll() {
    Enter([this](void* memory) { Run(0, tiles, memory); });
  }

  // Runs the chunks of its own share, then steals from the others.
  void RunPieces(int64_t own) {
    Enter([this, own](void* memory) {
      for (int64_t i = 0; i < share_count; ++i) {
        Share& share = shares[(own + i) % share_count];
        for (int64_t begin;
             (begin = share.next.fetch_add(grain, std::memory_order_relaxed)) < share.end;) {
          Run(begin, std::min(begin + grain, share.end), memory);
        }
      }
    });
  }
};

class Pool {
 public:
  // Runs a job on this thread and up to `wanted` workers. False if the pool is in use.
  bool TryRun(Job* job, int64_t wanted) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    StartWorkers(static_cast<size_t>(wanted));
    const uint64_t tickets = std::min<uint64_t>(wanted, workers_.size());
    job->Divide(shares_.data(), std::min(static_cast<int64_t>(tickets) + 1, kMaxShares));
    job_ = job;
    // Sequentially consistent, as in Sleep: either the sleeper is seen, or it sees the tickets.
    state_.store(++generation_ << 32 | tickets << 16);
    Wake(tickets);
    job->RunPieces(0);
    state_.fetch_and(~(kJoined << 16));  // withdraw the tickets
    AwaitWorkers(job);
    busy_.store(false, std::memory_order_release);
    return true;
  }

 private:
  // state_: generation (32 bits), tickets (16), joined (16).
  static constexpr uint64_t kJoined = 0xffff;

  static uint64_t Generation(uint64_t state) { return state >> 32; }
  static int64_t Tickets(uint64_t state) { return static_cast<int64_t>(state >> 16 & kJoined); }
  static bool HasTickets(uint64_t state) { return Tickets(state) != 0; }

  void StartWorkers(size_t count) {
    try {
      while (workers_.size() < count) workers_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {  // continue with the existing workers
    } catch (const std::bad_alloc&) {
    }
  }

  void Wake(uint64_t count) {
    const uint64_t asleep = asleep_.load();
    if (asleep == 0 || count == 0) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }  // no worker is between its check and its sleep
    if (count >= asleep) return wake_.notify_all();
    for (; count > 0; --count) wake_.notify_one();
  }

  // Waits for the workers; polls signal handlers meanwhile, as in tiles.
  void AwaitWorkers(Job* job) {
    const auto all_left = [this] { return (state_.load() & kJoined) == 0; };
    if (SpinUntil(all_left)) return;
    std::unique_lock<std::mutex> lock(mutex_);
    caller_waits_.store(true);
    while (!done_.wait_for(lock, std::chrono::milliseconds(kInterruptPollMs), all_left)) {
      lock.unlock();
      if (!job->HasFailed() && IsInterrupted()) job->Fail(kRelaxRt2Interrupted);
      lock.lock();
    }
    caller_waits_.store(false);
  }

  // Sets the thread name, and resets the affinity, which is inherited from the starting thread and
  // may be a single CPU.
  static void SetUpWorker() {
#ifdef __linux__
    pthread_setname_np(pthread_self(), "relax_mlir");
    cpu_set_t set;
    if (sched_getaffinity(getpid(), sizeof(set), &set) != 0) return;
    sched_setaffinity(0, sizeof(set), &set);
#endif
  }

  [[noreturn]] void Work() {
    SetUpWorker();
    uint64_t last = 0;  // a worker joins a job once
    const auto is_new = [&] {
      const uint64_t state = state_.load();
      return HasTickets(state) && Generation(state) != last;
    };
    while (true) {
      if (!SpinUntil(is_new)) Sleep(is_new);
      uint64_t state = state_.load();
      while (HasTickets(state) && Generation(state) != last) {
        if (!state_.compare_exchange_weak(state, state - (1 << 16) + 1)) continue;
        last = Generation(state);
        job_->RunPieces(Tickets(state));
        Leave();
        break;
      }
    }
  }

  template <typename Condition>
  void Sleep(const Condition& is_new) {
    std::unique_lock<std::mutex> lock(mutex_);
    asleep_.fetch_add(1);
    wake_.wait(lock, is_new);
    asleep_.fetch_sub(1);
  }

  void Leave() {
    const bool was_last = (state_.fetch_sub(1) & kJoined) == 1;
    if (!was_last || !caller_waits_.load()) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
    }
    done_.notify_one();
  }

  std::atomic<bool> busy_{false};
  alignas(64) std::atomic<uint64_t> state_{0};
  uint64_t generation_ = 0;
  Job* job_ = nullptr;
  std::array<Share, kMaxShares> shares_;  // of the job
  std::vector<std::thread> workers_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable done_;
  std::atomic<uint64_t> asleep_{0};
  std::atomic<bool> caller_waits_{false};
};

// Never destroyed, since workers wait in it until the process ends.
std::atomic<Pool*> the_pool{nullptr};

// A forked child has the memory of the pool but none of its threads, and possibly a locked mutex,
// so it abandons the pool and creates a new one.
void AbandonPool() {
  the_pool.store(nullptr);
  nesting = 0;
  processors.store(0);
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, AbandonPool);

Pool* GetPool() {
  Pool* pool = the_pool.load(std::memory_order_acquire);
  if (pool != nullptr) return pool;
  auto fresh = std::make_unique<Pool>();
  if (the_pool.compare_exchange_strong(pool, fresh.get())) return fresh.release();
  return pool;
}

// Records the duration of its scope in a profile, if there is one.
class Stopwatch {
 public:
  explicit Stopwatch(relax_rt2_profile* profile) : profile_(profile) {
    if (profile_ != nullptr) start_ = std::chrono::steady_clock::now();
  }
  Stopwatch(const Stopwatch&) = delete;

  ~Stopwatch() {
    if (profile_ == nullptr) return;
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start_;
    const int64_t place = profile_->count++;
    if (place < profile_->capacity) profile_->durations_ns[place] = taken.count();
  }

 private:
  relax_rt2_profile* const profile_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace
}  // namespace relax_mlir

int32_t relax_rt2_max_threads(void) { return relax_mlir::MaxThreads(); }

void relax_rt2_set_max_threads(int32_t count) {
  relax_mlir::chosen_threads.store(std::max(count, 0), std::memory_order_relaxed);
  relax_mlir::processors.store(0, std::memory_order_relaxed);
}

void relax_rt2_parallel_for(void* context, relax_rt2_tile tile, void** buffers,
                            const int64_t* sizes, int64_t tiles, int64_t grain,
                            int64_t scratch_bytes) {
  using namespace relax_mlir;
  auto* call = static_cast<relax_rt2_context*>(context);
  const Stopwatch stopwatch(call == nullptr || nesting > 0 ? nullptr : call->profile);
  if (tiles <= 0) return;
  // Skipped after a failure, since uninitialised outputs may be indices of the next kernel.
  if (nesting == 0 && call != nullptr) {
    if (call->failure == kRelaxRt2Ok && IsInterrupted()) call->failure = kRelaxRt2Interrupted;
    if (call->failure != kRelaxRt2Ok) return;
  }
  const int threads = call == nullptr ? 1 : call->threads;
  grain = std::max<int64_t>(grain, 1);
  Job job{tile, buffers, sizes, tiles, grain, scratch_bytes};
  bool ran = false;
  if (threads > 1 && tiles > grain && nesting == 0) {
    const int64_t others =
        std::min<int64_t>({threads - 1, SpareThreads(), (tiles - 1) / grain});
    try {
      ran = others > 0 && GetPool()->TryRun(&job, others);
    } catch (const std::bad_alloc&) {  // run serially
    }
  }
  if (!ran) job.RunAll();
  const int32_t failure = job.failure.load(std::memory_order_relaxed);
  if (failure != kRelaxRt2Ok && call != nullptr) call->failure = failure;
}
