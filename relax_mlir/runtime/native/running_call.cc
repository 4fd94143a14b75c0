#include "running_call.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>

#include "interrupts.h"

namespace relax_mlir {
namespace {

thread_local int open_calls = 0;        // by this thread
std::atomic<int32_t> running_calls{0};  // threads with open calls

std::atomic<bool> closed{false};
thread_local bool is_closer = false;  // this thread has closed calls

thread_local const relax_rt2_context* current_context = nullptr;

// A thread that returns to a Python interpreter during finalisation is terminated with C++ frames
// on its stack, which aborts the process. So it never returns.
[[noreturn]] void Park() {
  while (true) pause();
}

// A forked child has only the forking thread.
void ForgetOtherThreads() { running_calls.store(open_calls > 0 ? 1 : 0); }

[[maybe_unused]] const int registered = pthread_atfork(nullptr, nullptr, ForgetOtherThreads);

}  // namespace

// The counts are sequentially consistent: either a closing thread sees the call, or the call sees
// that calls are closed. The same holds for the watcher, which sleeps when no call is running.
RunningCall::RunningCall() {
  if (open_calls++ > 0) return;
  is_watched_ = IsMainThread();
  if (is_watched_) BeginWatch();
  running_calls.fetch_add(1);
  if (closed.load() && !is_closer) {
    running_calls.fetch_sub(1);
    Park();
  }
  if (is_watched_) WakeWatcher();
}

RunningCall::~RunningCall() {
  if (--open_calls > 0) return;
  if (is_watched_) EndWatch();
  running_calls.fetch_sub(1);
  if (closed.load() && !is_closer) Park();
}

int32_t OtherRunningCalls() {
  return running_calls.load() - (open_calls > 0 ? 1 : 0);
}

ContextScope::ContextScope(const relax_rt2_context* context) : outer_(current_context) {
  current_context = context;
}

ContextScope::~ContextScope() { current_context = outer_; }

bool ContextScope::HasFailed() {
  return current_context != nullptr && current_context->failure != kRelaxRt2Ok;
}

}  // namespace relax_mlir

void relax_rt2_close_calls(void) {
  relax_mlir::is_closer = true;
  relax_mlir::closed.store(true);
}

int32_t relax_rt2_other_calls(void) { return relax_mlir::OtherRunningCalls(); }
