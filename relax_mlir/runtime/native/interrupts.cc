#include "interrupts.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#include "running_call.h"
#include "tile_permission.h"

namespace relax_mlir {
namespace {

// Fields of the flag: a bit for pending signals, and the number of alarms above it.
constexpr int32_t kPollDue = 1;
constexpr int32_t kOneAlarm = 2;

constexpr auto kTick = std::chrono::milliseconds(kInterruptPollMs);
constexpr int kIdleTicks = 20;  // without a call until the watcher sleeps
constexpr int kMaxSkippedTicks = 5;

int32_t Attention() { return __atomic_load_n(&relax_rt2_attention, __ATOMIC_RELAXED); }

// Sequence number of calls of the main thread: odd inside of a call, even outside.
std::atomic<uint64_t> main_calls{0};

// Ticks until the watcher may raise the flag again: backs off if acquiring the GIL took long,
// because of other Python threads.
std::atomic<int> skipped_ticks{0};

bool IsSystemMainThread() {
#if defined(__linux__)
  return gettid() == getpid();
#elif defined(__APPLE__)
  return pthread_main_np() != 0;
#else
#error "unknown system: cannot determine the thread that runs signal handlers"
#endif
}

thread_local int8_t is_main_thread = -1;  // -1: unknown

// Raises the flag while the main thread is in one call for longer than a tick. Sleeps while there
// are no calls.
class Watcher {
 public:
  void Run() {
    uint64_t last = main_calls.load(std::memory_order_relaxed);
    for (int idle = 0;;) {
      std::this_thread::sleep_for(kTick);
      const uint64_t call = main_calls.load(std::memory_order_relaxed);
      if (call == last && call % 2 == 1) {
        Tick();
      } else if (call == last && ++idle >= kIdleTicks) {
        Sleep();
      }
      if (call != last) idle = 0;
      last = call;
    }
  }

  bool IsAsleep() const { return is_asleep_.load(); }

  void Wake() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      is_asleep_.store(false);
    }
    wake_.notify_one();
  }

 private:
  static void Tick() {
    if (skipped_ticks.load(std::memory_order_relaxed) > 0) {
      skipped_ticks.fetch_sub(1, std::memory_order_relaxed);
    } else {
      __atomic_fetch_or(&relax_rt2_attention, kPollDue, __ATOMIC_RELAXED);
    }
  }

  void Sleep() {
    std::unique_lock<std::mutex> lock(mutex_);
    is_asleep_.store(true);
    // Sequentially consistent: either a new call sees the sleeping watcher, or the watcher sees it.
    if (OtherRunningCalls() > 0) is_asleep_.store(false);
    wake_.wait(lock, [this] { return !is_asleep_.load(); });
  }

  std::atomic<bool> is_asleep_{false};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Never destroyed: its thread lives until the process ends.
std::atomic<Watcher*> the_watcher{nullptr};

void StartWatcher() {
  try {
    auto* watcher = new Watcher;
    sigset_t all, before;  // process signals must not be delivered to this thread
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      std::thread([watcher] { watcher->Run(); }).detach();
      the_watcher.store(watcher);
    } catch (const std::system_error&) {  // the next call tries again
      delete watcher;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  } catch (const std::bad_alloc&) {
  }
}

// A forked child has no watcher, and its only thread is its main thread.
void AbandonWatcher() {
  the_watcher.store(nullptr);
  skipped_ticks.store(0);
  __atomic_store_n(&relax_rt2_attention, 0, __ATOMIC_RELAXED);
  is_main_thread = 1;
}

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, AbandonWatcher);

void ClearPollDue() {
  if ((Attention() & kPollDue) == 0) return;
  __atomic_fetch_and(&relax_rt2_attention, ~kPollDue, __ATOMIC_RELAXED);
}

// Runs pending signal handlers; true if one raised an exception.
bool RunSignalHandlers() {
  ClearPollDue();
  const auto start = std::chrono::steady_clock::now();
  const bool has_raised = TVMFFIEnvCheckSignals() != 0;
  const auto taken = std::chrono::steady_clock::now() - start;
  const auto ticks = taken / std::chrono::milliseconds(1);  // 2 % of the time at most
  skipped_ticks.store(static_cast<int>(std::min<int64_t>(ticks, kMaxSkippedTicks)));
  return has_raised;
}

struct Landing;
thread_local Landing* landing = nullptr;  // the innermost of this thread

// The builtin saves a few words inline; Clang supports it for x86-64 only.
#if defined(__x86_64__)
using Place = void* [5];
#define RELAX_SET_PLACE(place) __builtin_setjmp(place)
#define RELAX_GO_TO_PLACE(place) __builtin_longjmp(place, 1)
#else
using Place = jmp_buf;
#define RELAX_SET_PLACE(place) _setjmp(place)
#define RELAX_GO_TO_PLACE(place) _longjmp(place, 1)
#endif

// Jump target for aborting the current tile function of this thread.
struct Landing {
  explicit Landing(const std::atomic<int32_t>* failure) : failure(failure), outer(landing) {
    landing = this;
  }
  ~Landing() { landing = outer; }
  Landing(const Landing&) = delete;

  Place place;
  const std::atomic<int32_t>* const failure;
  Landing* const outer;
};

}  // namespace

// Python runs signal handlers on the thread that initialised it, or that forked.
bool IsMainThread() {
  if (is_main_thread < 0) is_main_thread = IsSystemMainThread();
  return is_main_thread != 0;
}

void BeginWatch() {
  main_calls.store(main_calls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

void EndWatch() {
  BeginWatch();
  ClearPollDue();
}

void WakeWatcher() {
  Watcher* const watcher = the_watcher.load();
  if (watcher == nullptr) {
    StartWatcher();
  } else if (watcher->IsAsleep()) {
    watcher->Wake();
  }
}

bool IsInterrupted() {
  if ((Attention() & kPollDue) == 0 || !IsMainThread()) return false;
  // Callers of kernels without a RunningCall could not propagate an exception of a handler.
  const bool is_watched = main_calls.load(std::memory_order_relaxed) % 2 == 1;
  return is_watched && RunSignalHandlers();
}

void ThrowIfInterrupted() {
  if (IsInterrupted()) throw tvm::ffi::EnvErrorAlreadySet();
}

Alarm::~Alarm() {
  if (is_raised_) __atomic_fetch_sub(&relax_rt2_attention, kOneAlarm, __ATOMIC_RELAXED);
}

void Alarm::Raise() {
  if (is_raised_) return;
  is_raised_ = true;
  __atomic_fetch_add(&relax_rt2_attention, kOneAlarm, __ATOMIC_RELAXED);
}

bool RunInterruptibly(relax_rt2_tile tile, void** buffers, const int64_t* sizes, void* scratch,
                      int64_t begin, int64_t end, const std::atomic<int32_t>& failure) {
  Landing here(&failure);
  if (RELAX_SET_PLACE(here.place) != 0) {
    ReleaseTiles();
    return false;
  }
  tile(buffers, sizes, scratch, begin, end);
  return true;
}

}  // namespace relax_mlir

int32_t relax_rt2_attention = 0;

// Only frames of compiled code, which hold no resources, are between here and the jump target.
void relax_rt2_check_interrupt(void) {
  using relax_mlir::landing;
  if (landing == nullptr) return;
  const bool has_failed = landing->failure->load(std::memory_order_relaxed) != kRelaxRt2Ok;
  if (has_failed || relax_mlir::IsInterrupted()) RELAX_GO_TO_PLACE(landing->place);
}
