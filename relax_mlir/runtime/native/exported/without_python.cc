// What the thread pool and sorting call in Python's process only: signal handlers and guard pages. Exported
// libraries have neither.
#include <string>

#include "abi.h"
#include "guard.h"
#include "interrupts.h"

namespace relax_mlir {

bool IsMainThread() { return false; }
void BeginWatch() {}
void WakeWatcher() {}
void EndWatch() {}
bool IsInterrupted() { return false; }
void ThrowIfInterrupted() {}

void Alarm::Raise() {}
Alarm::~Alarm() = default;

bool RunInterruptibly(relax_rt2_tile tile, void** buffers, const int64_t* sizes, void* scratch,
                      int64_t begin, int64_t end, const std::atomic<int32_t>&) {
  tile(buffers, sizes, scratch, begin, end);
  return true;
}

GuardedRun* GuardedRun::Current() { return nullptr; }
bool GuardedRun::TryCall(void (*)(void*), void*) { return false; }
GuardedThread::GuardedThread(GuardedRun* run) : run_(run), outer_(nullptr) {}
GuardedThread::~GuardedThread() = default;
GuardedMemory::~GuardedMemory() = default;
std::string TakeGuardReport() { return {}; }

}  // namespace relax_mlir

int32_t relax_rt2_attention = 0;
void relax_rt2_check_interrupt(void) {}
