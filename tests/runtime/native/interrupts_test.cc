#include "interrupts.h"

#include <sys/wait.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/extra/c_env_api.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "abi.h"
#include "check.h"
#include "running_call.h"

// What stands for the interpreter: how often handlers ran, and when one of them raises.
std::atomic<int> polls{0};
std::atomic<int> raising_poll{0};

int CheckSignals() { return ++polls == raising_poll ? -1 : 0; }

void RaiseAtPoll(int number) {
  polls = 0;
  raising_poll = number;
}

void* EnsureLock() { return nullptr; }
void ReleaseLock(void*) {}

void RegisterInterpreter() {
  const auto add = [](const char* name, auto* function) {
    CHECK_EQUAL(TVMFFIEnvRegisterCAPI(name, reinterpret_cast<void*>(function)), 0);
  };
  add("PyGILState_Ensure", EnsureLock);
  add("PyGILState_Release", ReleaseLock);
  add("PyErr_CheckSignals", CheckSignals);
}

// The flag, which the watcher may raise at any time.
int32_t Attention() { return __atomic_load_n(&relax_rt2_attention, __ATOMIC_RELAXED); }

void CheckFlag() {
  if (Attention() != 0) relax_rt2_check_interrupt();
}

// A tile that goes on until it is left. buffers[0] = how many have begun.
void Endless(void** buffers, const int64_t*, void*, int64_t, int64_t) {
  ++*static_cast<std::atomic<int>*>(buffers[0]);
  while (true) CheckFlag();
}

void Once(void** buffers, const int64_t*, void*, int64_t begin, int64_t end) {
  *static_cast<std::atomic<int>*>(buffers[0]) += static_cast<int>(end - begin);
}

void TestATileIsLeft() {
  for (const int threads : {1, 2}) {
    RaiseAtPoll(3);  // the handlers before it let the kernel go on
    std::atomic<int> begun{0};
    void* buffers[] = {&begun};
    relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
    {
      const relax_mlir::RunningCall running;
      relax_rt2_parallel_for(&context, Endless, buffers, nullptr, 4, 1, 0);
    }
    CHECK_EQUAL(context.failure, kRelaxRt2Interrupted);
    CHECK_EQUAL(polls.load(), 3);
    CHECK(begun >= 1 && begun <= threads, begun << " tiles began");

    context.failure = kRelaxRt2Ok;  // and the pool still works
    std::atomic<int> tiles{0};
    buffers[0] = &tiles;
    relax_rt2_parallel_for(&context, Once, buffers, nullptr, 100, 1, 64);
    CHECK_EQUAL(tiles.load(), 100);
  }
}

// The caller has nothing to do but to wait for a thread that checks nothing for a while.
void TestWaitingForOthersIsInterrupted() {
  RaiseAtPoll(1);
  const auto wait = [](void** buffers, const int64_t*, void*, int64_t, int64_t) {
    if (std::this_thread::get_id() == *static_cast<std::thread::id*>(buffers[0])) return;
    while (polls == 0) std::this_thread::yield();
  };
  std::thread::id caller = std::this_thread::get_id();
  void* buffers[] = {&caller};
  relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
  relax_rt2_set_max_threads(2);
  const relax_mlir::RunningCall running;
  relax_rt2_parallel_for(&context, wait, buffers, nullptr, 2, 1, 0);
  relax_rt2_set_max_threads(0);
  // The caller may have been fast enough to take both pieces.
  CHECK_EQUAL(context.failure, polls == 0 ? kRelaxRt2Ok : kRelaxRt2Interrupted);
}

// The next kernel of a call is not begun.
void TestAChainOfKernelsIsInterrupted() {
  RaiseAtPoll(1);
  std::atomic<int> kernels{0};
  void* buffers[] = {&kernels};
  relax_rt2_context context{1, kRelaxRt2Ok, nullptr};
  const relax_mlir::RunningCall running;
  while (context.failure == kRelaxRt2Ok) {
    relax_rt2_parallel_for(&context, Once, buffers, nullptr, 1, 1, 0);
  }
  CHECK_EQUAL(context.failure, kRelaxRt2Interrupted);
  const int ran = kernels;
  relax_rt2_parallel_for(&context, Once, buffers, nullptr, 1, 1, 0);
  CHECK_EQUAL(kernels.load(), ran);
}

// A thread that fails takes the others along; the first failure is the call's.
void TestAFailureEndsTheTilesOfOtherThreads() {
  if (relax_rt2_cpu_count() < 2) return;
  RaiseAtPoll(0);
  const auto fail = [](void** buffers, const int64_t* sizes, void* scratch, int64_t begin,
                       int64_t end) {
    if (begin == 0) Endless(buffers, sizes, scratch, begin, end);
    while (*static_cast<std::atomic<int>*>(buffers[0]) == 0) std::this_thread::yield();
    throw std::runtime_error("fails");
  };
  std::atomic<int> begun{0};
  void* buffers[] = {&begun};
  relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, fail, buffers, nullptr, 2, 1, 0);
  CHECK_EQUAL(context.failure, kRelaxRt2Exception);
  CHECK_EQUAL(Attention() & ~1, 0);
}

// Native loops throw; other threads than the main one run no handlers.
void TestNativeLoops() {
  RaiseAtPoll(1);
  bool has_thrown = false;
  try {
    const relax_mlir::RunningCall running;
    while (true) relax_mlir::ThrowIfInterrupted();
  } catch (const tvm::ffi::Error& error) {
    has_thrown = error.kind() == "EnvErrorAlreadySet";
  }
  CHECK(has_thrown, "no error of the interpreter");

  RaiseAtPoll(0);
  __atomic_store_n(&relax_rt2_attention, 1, __ATOMIC_RELAXED);
  CHECK(!relax_mlir::IsInterrupted(), "no call runs");
  const relax_mlir::RunningCall running;
  std::thread([] { CHECK(!relax_mlir::IsInterrupted(), "another thread"); }).join();
  CHECK_EQUAL(polls.load(), 0);
  CHECK(!relax_mlir::IsInterrupted(), "no handler raises");
  CHECK_EQUAL(polls.load(), 1);
  CHECK_EQUAL(Attention(), 0);
}

// Calls of a forked child are watched by a thread of its own.
void TestAForkedChildIsInterrupted() {
#ifndef __SANITIZE_THREAD__  // it takes the threads of a child for those of its parent
  const pid_t child = fork();
  if (child == 0) {
    TestATileIsLeft();
    _exit(0);
  }
  int status = -1;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK_EQUAL(status, 0);
#endif
}

// A thread that is in a call when calls are closed does not come back, nor one that begins one.
void TestClosedCalls() {
  const pid_t child = fork();  // calls stay closed
  if (child != 0) {
    int status = -1;
    CHECK_EQUAL(waitpid(child, &status, 0), child);
    CHECK_EQUAL(status, 0);
    return;
  }
  static std::atomic<bool> is_inside{false}, may_leave{false}, has_left{false};
  std::thread([] {
    {
      const relax_mlir::RunningCall running;
      is_inside = true;
      while (!may_leave) std::this_thread::yield();
    }
    has_left = true;
  }).detach();
  while (!is_inside) std::this_thread::yield();
  relax_rt2_close_calls();
  CHECK_EQUAL(relax_rt2_other_calls(), 1);
  {
    const relax_mlir::RunningCall running;  // this thread has closed them
    CHECK_EQUAL(relax_rt2_other_calls(), 1);
  }
  may_leave = true;
  std::thread([] {
    const relax_mlir::RunningCall running;
    has_left = true;
  }).detach();
  while (relax_rt2_other_calls() > 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK(!has_left, "a thread has come back");
  _exit(0);
}

int main() {
  RegisterInterpreter();
  TestATileIsLeft();
  TestWaitingForOthersIsInterrupted();
  TestAChainOfKernelsIsInterrupted();
  TestAFailureEndsTheTilesOfOtherThreads();
  TestNativeLoops();
  TestAForkedChildIsInterrupted();
#ifndef __SANITIZE_THREAD__
  TestClosedCalls();
#endif
}
