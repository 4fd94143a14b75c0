#include "running_call.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

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

// Tiles that wait for each other finish only if as many threads run them; sizes[0] = how many.
void Meet(void** buffers, const int64_t* sizes, void*, int64_t, int64_t) {
  auto* arrived = static_cast<std::atomic<int>*>(buffers[0]);
  ++*arrived;
  while (*arrived < sizes[0]) std::this_thread::yield();
}

void RunMeet(int threads) {
  relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
  std::atomic<int> arrived{0};
  void* buffers[] = {&arrived};
  const int64_t sizes[] = {threads};
  relax_rt2_parallel_for(&context, Meet, buffers, sizes, threads, 1, 0);
  CHECK_EQUAL(arrived.load(), threads);
}

void TestThreadsRunAtOnce() {
  if (relax_rt2_cpu_count() < 2) return;
  for (int i = 0; i < 50; ++i) {
    RunMeet(2);
    // Long enough for the workers to fall asleep, now and then.
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Notes which tiles each of two threads runs, in order, once both are there.
struct Walks {
  std::mutex mutex;
  std::vector<std::pair<std::thread::id, int64_t>> tiles;
  std::atomic<int> arrived{0};
};

void NoteTile(void** buffers, const int64_t*, void*, int64_t begin, int64_t) {
  auto* walks = static_cast<Walks*>(buffers[0]);
  {
    std::lock_guard<std::mutex> lock(walks->mutex);
    walks->tiles.emplace_back(std::this_thread::get_id(), begin);
  }
  ++walks->arrived;
  while (walks->arrived < 2) std::this_thread::yield();
}

void TestEachThreadHasTilesInARow() {
  relax_rt2_set_max_threads(2);
  Walks walks;
  relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
  void* buffers[] = {&walks};
  relax_rt2_parallel_for(&context, NoteTile, buffers, nullptr, 11, 1, 0);
  std::map<std::thread::id, std::vector<int64_t>> by_thread;
  for (const auto& [thread, tile] : walks.tiles) by_thread[thread].push_back(tile);
  CHECK_EQUAL(by_thread.size(), size_t{2});
  for (const auto& [thread, tiles] : by_thread) {
    const bool is_caller = thread == std::this_thread::get_id();
    CHECK_EQUAL(tiles[0], is_caller ? 0 : 5);  // 11 tiles: 0 to 4, and 5 to 10
    const auto is_own = [&](int64_t tile) { return (tile < 5) == is_caller; };
    const auto end = std::find_if_not(tiles.begin(), tiles.end(), is_own);
    CHECK(std::is_sorted(tiles.begin(), end), "its share out of order");
    CHECK(std::none_of(end, tiles.end(), is_own), "its share after that of the other");
  }
  relax_rt2_set_max_threads(0);
}

// How many threads are in tiles at once.
struct Gauge {
  std::atomic<int> now{0};
  std::atomic<int> most{0};
};

void Measure(void** buffers, const int64_t*, void*, int64_t, int64_t) {
  auto* gauge = static_cast<Gauge*>(buffers[0]);
  const int now = ++gauge->now;
  for (int most = gauge->most; most < now;) {
    if (gauge->most.compare_exchange_weak(most, now)) break;
  }
  std::this_thread::sleep_for(std::chrono::microseconds(20));
  --gauge->now;
}

void RunMeasure(Gauge* gauge) {
  relax_rt2_context context{64, kRelaxRt2Ok, nullptr};
  void* buffers[] = {gauge};
  relax_rt2_parallel_for(&context, Measure, buffers, nullptr, 200, 1, 0);
}

void TestMostThreadsOfTheProcess() {
  CHECK_EQUAL(relax_rt2_max_threads(), relax_rt2_cpu_count());
  for (const int most : {5, 2, 3}) {  // more than there are processors, too
    relax_rt2_set_max_threads(most);
    CHECK_EQUAL(relax_rt2_max_threads(), most);
    RunMeet(most);
    Gauge gauge;
    RunMeasure(&gauge);
    CHECK(gauge.most <= most, gauge.most << " threads worked at once, allowed were " << most);
  }
  relax_rt2_set_max_threads(1);
  Seen seen;
  RunCount(8, 100, 1, &seen);
  CHECK_EQUAL(seen.calls, 1);  // all tiles at once, here
  for (const int none : {0, -1}) {
    relax_rt2_set_max_threads(none);
    CHECK_EQUAL(relax_rt2_max_threads(), relax_rt2_cpu_count());
  }
}

// Returns when all of a number of threads have come, again and again.
class Gate {
 public:
  explicit Gate(int threads) : threads_(threads) {}
  void Pass() {
    const int round = arrived_++ / threads_;
    while (arrived_ < (round + 1) * threads_) std::this_thread::yield();
  }

 private:
  const int threads_;
  std::atomic<int> arrived_{0};
};

// While `callers` threads are in calls, no more than that work, or than are allowed.
void TestCallersShareTheThreads() {
  relax_rt2_set_max_threads(3);
  for (const int callers : {1, 2, 3, 8}) {
    Gauge gauge;
    Gate gate(callers);
    std::vector<std::thread> threads;
    for (int c = 0; c < callers; ++c) {
      threads.emplace_back([&] {
        const relax_mlir::RunningCall call;
        const relax_mlir::RunningCall inside;  // counts once
        gate.Pass();
        for (int i = 0; i < 5; ++i) RunMeasure(&gauge);
        gate.Pass();
      });
    }
    for (std::thread& thread : threads) thread.join();
    const int allowed = std::max(3, callers);
    CHECK(gauge.most <= allowed, callers << " callers: " << gauge.most << " worked at once");
  }
  {
    const relax_mlir::RunningCall call;
    const relax_mlir::RunningCall inside;
    RunMeet(3);  // the others have left
  }
  RunMeet(3);
  relax_rt2_set_max_threads(0);
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

void TestNothingRunsAfterAFailure() {
  Seen seen;
  std::atomic<int> counter{0};
  void* buffers[] = {&counter, &seen};
  relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
  relax_rt2_parallel_for(&context, Count, buffers, nullptr, 1, 1, int64_t{1} << 60);
  relax_rt2_parallel_for(&context, Count, buffers, nullptr, 1, 1, 0);
  CHECK_EQUAL(seen.calls, 0);
  CHECK_EQUAL(context.failure, kRelaxRt2OutOfMemory);
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

// The thread sanitizer takes the threads of a child for those of its parent that had their stacks;
// and sanitizers need address space themselves.
#ifdef __SANITIZE_THREAD__
constexpr bool kHasChildren = false;
#else
constexpr bool kHasChildren = true;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kHasLimits = false;
#else
constexpr bool kHasLimits = true;
#endif

// In a child, whose pool is its own.
void InChild(const std::function<void()>& test) {
  if (!kHasChildren) return;
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    test();
    _exit(0);
  }
  int status = 0;
  CHECK_EQUAL(waitpid(child, &status, 0), child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the child ended with " << status);
}

void TestForkedChild() {
  Seen seen;
  RunCount(2, 10, 1, &seen);  // the parent's pool exists
  InChild([] {
    TestEveryTileRunsOnce();
    TestThreadsRunAtOnce();
  });
  RunCount(2, 10, 1, &seen);
}

void TestForkedChildHasNotTheOtherCallers() {
  relax_rt2_set_max_threads(2);
  Gate gate(2);
  std::thread other([&] {
    const relax_mlir::RunningCall call;
    gate.Pass();
    gate.Pass();
  });
  gate.Pass();
  InChild([] { RunMeet(2); });
  {
    const relax_mlir::RunningCall call;
    InChild([] { RunMeet(2); });
  }
  gate.Pass();
  other.join();
  relax_rt2_set_max_threads(0);
}

int Processors() {
  cpu_set_t set;
  CHECK_EQUAL(sched_getaffinity(0, sizeof(set), &set), 0);
  return CPU_COUNT(&set);
}

// A tile on a thread of the pool: 0 = the processors that it may use.
void NoteProcessors(void** buffers, const int64_t* sizes, void*, int64_t begin, int64_t end) {
  const bool is_worker = getpid() != gettid() && Processors() > 1;
  if (is_worker) *static_cast<std::atomic<int>*>(buffers[0]) = Processors();
  Meet(&buffers[1], sizes, nullptr, begin, end);
}

void TestWorkersOfABoundCallerAreFree() {
  if (Processors() < 2) return;
  InChild([] {
    const int processors = Processors();
    std::thread([&] {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(sched_getcpu(), &one);
      CHECK_EQUAL(sched_setaffinity(0, sizeof(one), &one), 0);
      CHECK_EQUAL(relax_rt2_max_threads(), relax_rt2_cpu_count());
      relax_rt2_set_max_threads(2);
      std::atomic<int> found{0};
      std::atomic<int> arrived{0};
      void* buffers[] = {&found, &arrived};
      const int64_t sizes[] = {2};
      relax_rt2_context context{2, kRelaxRt2Ok, nullptr};
      relax_rt2_parallel_for(&context, NoteProcessors, buffers, sizes, 2, 1, 0);
      CHECK_EQUAL(found.load(), processors);
      CHECK_EQUAL(Processors(), 1);  // the caller stays where it was
    }).join();
  });
}

void TestWithoutThreadsTheCallerWorks() {
  if (!kHasLimits) return;
  InChild([] {
    relax_rt2_set_max_threads(4);
    const rlimit none{1, 1};  // no stack fits
    CHECK_EQUAL(setrlimit(RLIMIT_AS, &none), 0);
    // The C library gives the stacks of threads that have ended to new ones: none are left.
    try {
      for (;;) std::thread([] { pause(); }).detach();
    } catch (const std::exception&) {
    }
    Seen seen;
    RunCount(4, 50, 1, &seen);
    CHECK_EQUAL(seen.threads.size(), 1u);
  });
}

// Not a test: what forking and joining costs, printed with `thread_pool_test --time`. Each thread
// has one tile, which waits for those of the others, so that all of them were there.
void Time() {
  const auto meet = [](void** buffers, const int64_t* sizes, void*, int64_t, int64_t) {
    auto* arrived = static_cast<std::atomic<int>*>(buffers[0]);
    ++*arrived;
    while (arrived->load() < sizes[0]) continue;
  };
  const auto measure = [&](const char* what, int threads, std::chrono::microseconds rest) {
    relax_rt2_context context{threads, kRelaxRt2Ok, nullptr};
    const int64_t sizes[] = {threads};
    std::vector<double> times_us;
    for (int i = 0; i < 5000; ++i) {
      if (rest.count() > 0) std::this_thread::sleep_for(rest);
      std::atomic<int> arrived{0};
      void* buffers[] = {&arrived};
      const auto start = std::chrono::steady_clock::now();
      relax_rt2_parallel_for(&context, meet, buffers, sizes, threads, 1, 0);
      const std::chrono::duration<double, std::micro> time =
          std::chrono::steady_clock::now() - start;
      times_us.push_back(time.count());
    }
    std::sort(times_us.begin(), times_us.end());
    std::cout << what << ": median " << times_us[2500] << " us, p10 " << times_us[500] << ", p90 "
              << times_us[4500] << "\n";
  };
  measure("one thread", 1, std::chrono::microseconds(0));
  if (relax_rt2_max_threads() < 2) return;
  measure("two threads, awake", 2, std::chrono::microseconds(0));
  measure("two threads, asleep", 2, std::chrono::microseconds(200));
}

int main(int argc, char** argv) {
  if (argc > 1 && std::string(argv[1]) == "--time") return Time(), 0;
  alarm(60);  // a deadlock fails instead of hanging
  TestEveryTileRunsOnce();
  TestThreadsRunAtOnce();
  TestEachThreadHasTilesInARow();
  TestMostThreadsOfTheProcess();
  TestCallersShareTheThreads();
  TestNestedCallsRunInPlace();
  TestScratchIsKeptAndGrows();
  TestFailuresAreReported();
  TestNothingRunsAfterAFailure();
  TestProfile();
  TestCallersAtOnce();
  TestForkedChild();
  TestForkedChildHasNotTheOtherCallers();
  TestWorkersOfABoundCallerAreFree();
  TestWithoutThreadsTheCallerWorks();
}
