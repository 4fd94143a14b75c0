#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>

#include "abi.h"
#include "check.h"

// Buffers of the tiles below: 0 = an array of counters, 1 = a Seen.
struct Seen {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int64_t> calls{0};
  std::atomic<int64_t> longest{0};
};

void Count(void** buffers, const int64_t*, void*, int64_t begin, int64_t end) {
  auto* counters = static_cast<std::atomic<int>*>(buffers[0]);
  for (int64_t i = begin; i < end; ++i) ++counters[i];
  auto* seen = static_cast<Seen*>(buffers[1]);
  ++seen->calls;
  for (int64_t longest = seen->longest; longest < end - begin;) {
    if (seen->longest.compare_exchange_weak(longest, end - begin)) break;
  }
  std::lock_guard<std::mutex> lock(seen->mutex);
  seen->threads.insert(std::this_thread::get_id());
}

void CheckEachOnce(std::vector<std::atomic<int>>* counters) {
  for (size_t i = 0; i < counters->size(); ++i) {
    CHECK((*counters)[i] == 1, "tile " << i << " ran " << (*counters)[i] << " times");
  }
}

void RunCount(int threads, int64_t tiles, int64_t grain, Seen* seen) {
  std::vector<std::atomic<int>> counters(static_cast<size_t>(tiles));
  void* buffers[] = {counters.data(), seen};
  relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, Count, buffers, nullptr, tiles, grain, 0);
  CheckEachOnce(&counters);
  CHECK_EQUAL(context.failure, kRelaxRt2Ok);
}

void TestEveryTileRunsOnce() {
  for (const int threads : {0, 1, 2, 3, 64}) {
    for (const int64_t tiles : {1, 2, 7, 1000}) {
      for (const int64_t grain : {-1, 1, 3, 10'000}) {
        Seen seen;
        RunCount(threads, tiles, grain, &seen);
        const int64_t longest = std::max<int64_t>(1, grain);
        const bool is_serial = threads <= 1 || tiles <= longest;
        if (is_serial) CHECK_EQUAL(seen.calls, 1);
        if (!is_serial && relax_rt2_cpu_count() > 1) CHECK(seen.longest <= longest, "a piece");
      }
    }
  }
  Seen seen;
  void* buffers[] = {nullptr, &seen};
  relax_rt2_parallel_for(nullptr, Count, buffers, nullptr, 0, 1, 0);
  CHECK_EQUAL(seen.calls, 0);  // no tiles, no call; and no context is one thread
}

// Two tiles that wait for each other finish only if two threads run them.
void Meet(void** buffers, const int64_t*, void*, int64_t, int64_t) {
  auto* arrived = static_cast<std::atomic<int>*>(buffers[0]);
  ++*arrived;
  while (*arrived < 2) std::this_thread::yield();
}

void TestThreadsRunAtOnce() {
  if (relax_rt2_cpu_count() < 2) return;
  relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
  for (int i = 0; i < 50; ++i) {
    std::atomic<int> arrived{0};
    void* buffers[] = {&arrived};
    relax_rt2_parallel_for(&context, Meet, buffers, nullptr, 2, 1, 0);
    CHECK_EQUAL(arrived.load(), 2);
    // Long enough for the workers to fall asleep, now and then.
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// The outer tile's scratch must survive the nested call.
void Nested(void** buffers, const int64_t* sizes, void* scratch, int64_t begin, int64_t end) {
  auto* own = static_cast<int64_t*>(scratch);
  *own = begin;
  CHECK_EQUAL(reinterpret_cast<uintptr_t>(scratch) % 64, 0u);
  struct Inner {
    static void Tile(void** inner, const int64_t*, void* memory, int64_t first, int64_t last) {
      CHECK(first == 0 && last == 10, "a nested call is one piece");
      *static_cast<int64_t*>(memory) = -1;
      ++*static_cast<std::atomic<int>*>(inner[0]);
    }
  };
  relax_rt2_context context{4, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, Inner::Tile, buffers, sizes, 10, 1, 8);
  CHECK_EQUAL(*own, begin);
  CHECK_EQUAL(end, begin + 1);
}

void TestNestedCallsRunInPlace() {
  std::atomic<int> calls{0};
  void* buffers[] = {&calls};
  relax_rt2_context context{4, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, Nested, buffers, nullptr, 20, 1, 1000);
  if (relax_rt2_cpu_count() > 1) CHECK_EQUAL(calls.load(), 20);
}

void TestScratchIsKeptAndGrows() {
  static std::vector<void*> seen;
  const auto note = [](void**, const int64_t*, void* scratch, int64_t, int64_t) {
    seen.push_back(scratch);
  };
  relax_rt2_context context{1, kRelaxRt2Ok, nullptr};
  for (const int64_t bytes : {0, 4096, 64, 4096}) {
    relax_rt2_parallel_for(&context, note, nullptr, nullptr, 1, 1, bytes);
  }
  CHECK(seen[0] == nullptr, "no scratch was asked for");
  CHECK(seen[1] != nullptr && seen[1] == seen[2] && seen[1] == seen[3], "reused");
}

void TestFailuresAreReported() {
  const auto nothing = [](void**, const int64_t*, void*, int64_t, int64_t) {};
  const auto raise = [](void**, const int64_t*, void*, int64_t begin, int64_t) {
    if (begin == 3) throw std::runtime_error("tile 3");
  };
  for (const int threads : {1, 4}) {
    relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
    relax_rt2_parallel_for(&context, nothing, nullptr, nullptr, 8, 1, int64_t{1} << 60);
    CHECK_EQUAL(context.failure, kRelaxRt2OutOfMemory);
  }
  relax_rt2_context context{4, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, raise, nullptr, nullptr, 8, 1, 0);
  if (relax_rt2_cpu_count() > 1) CHECK_EQUAL(context.failure, kRelaxRt2Exception);
  Seen seen;
  RunCount(4, 100, 1, &seen);  // and the pool still works
}

// Each call has its place in turn, without tiles too; a nested one, and one too many, have none.
void TestProfile() {
  for (const int threads : {1, 2}) {
    int64_t durations_ns[] = {-1, -1, -1, -1};
    relax_rt2_profile profile{durations_ns, 3, 0};
    relax_rt2_context context{threads, kRelaxRt2Ok, &profile};
    const auto rest = [](void** buffers, const int64_t*, void*, int64_t, int64_t) {
      const auto nothing = [](void**, const int64_t*, void*, int64_t, int64_t) {};
      relax_rt2_parallel_for(buffers[0], nothing, nullptr, nullptr, 4, 1, 0);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    };
    void* buffers[] = {&context};
    for (const int64_t tiles : {2, 0, 1, 1}) {
      relax_rt2_parallel_for(&context, rest, buffers, nullptr, tiles, 1, 0);
    }
    CHECK_EQUAL(profile.count, 4);
    CHECK(durations_ns[0] >= 2'000'000, "two pieces took " << durations_ns[0] << " ns");
    CHECK(durations_ns[1] >= 0 && durations_ns[1] < durations_ns[0], "nothing to do");
    CHECK(durations_ns[2] >= 2'000'000, "one piece took " << durations_ns[2] << " ns");
    CHECK_EQUAL(durations_ns[3], -1);  // beyond the capacity
  }
}

void TestCallersAtOnce() {
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; ++c) {
    callers.emplace_back([] {
      for (int i = 0; i < 300; ++i) {
        Seen seen;
        RunCount(3, 50, 1, &seen);
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
}

void TestForkedChild() {
  Seen seen;
  RunCount(2, 10, 1, &seen);  // the parent's pool exists
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    TestEveryTileRunsOnce();
    TestThreadsRunAtOnce();
    _exit(0);
  }
  int status = 0;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with " << status);
  RunCount(2, 10, 1, &seen);
}

int main() {
  alarm(60);  // a deadlock fails instead of hanging
  TestEveryTileRunsOnce();
  TestThreadsRunAtOnce();
  TestNestedCallsRunInPlace();
  TestScratchIsKeptAndGrows();
  TestFailuresAreReported();
  TestProfile();
  TestCallersAtOnce();
  TestForkedChild();
}
