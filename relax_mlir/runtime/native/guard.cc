#include "guard.h"

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <tvm/ffi/container/array.h>
#include <tvm/ffi/function.h>
#include <tvm/ffi/reflection/registry.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <sstream>
#include <tuple>
#include <utility>
#include <vector>

#include "abi.h"

namespace relax_mlir {
namespace {

constexpr int64_t kMinZone = 1 << 20;  // inaccessible bytes on each side
constexpr int64_t kMaxZone = 1 << 28;

const char* const kKindNames[] = {"input", "output", "constant", "intermediate result", "scratch buffer"};

std::mutex regions_mutex;
std::vector<const GuardedMemory*> regions;  // all live objects

// Masked accesses with inactive lanes out of bounds: largest distances before and past the buffer,
// by kernel and buffer.
using MaskedKey = std::tuple<int64_t, std::string>;
std::mutex masked_mutex;
std::map<MaskedKey, std::pair<int64_t, int64_t>> masked_accesses;

thread_local GuardedThread* current_thread = nullptr;
thread_local sigjmp_buf* landing = nullptr;  // jump target of a fault of this thread
thread_local char message[160];
thread_local std::string report;

struct sigaction previous_action[NSIG];

int64_t PageBytes() {
  static const int64_t bytes = sysconf(_SC_PAGESIZE);
  return bytes;
}

int64_t RoundUp(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

const GuardedMemory* RegionAt(const char* address) {
  std::lock_guard<std::mutex> lock(regions_mutex);
  const auto found = std::find_if(regions.begin(), regions.end(), [&](const GuardedMemory* region) {
    return region->Covers(address);
  });
  return found == regions.end() ? nullptr : *found;
}

const char* AccessName(const void* context) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr greg_t kWrite = 2;  // of the page fault's error code
  const auto* state = static_cast<const ucontext_t*>(context);
  return state->uc_mcontext.gregs[REG_ERR] & kWrite ? "writes" : "reads";
#else
  static_cast<void>(context);
  return "accesses";
#endif
}

void DescribeFault(const char* address, const GuardedMemory& region, const void* context) {
  const char* const end = region.data() + region.bytes();
  const char* const access = AccessName(context);
  const std::string name = region.Describe();
  if (address >= end) {
    std::snprintf(message, sizeof(message), "%s %lld bytes past the end of %s", access,
                  static_cast<long long>(address - end), name.c_str());
  } else if (address < region.data()) {
    std::snprintf(message, sizeof(message), "%s %lld bytes before the start of %s", access,
                  static_cast<long long>(region.data() - address), name.c_str());
  } else {
    std::snprintf(message, sizeof(message), "%s byte %lld of %s, which is read-only", access,
                  static_cast<long long>(address - region.data()), name.c_str());
  }
}

// A fault of a guarded kernel aborts its run; other faults go to the previous handler.
void HandleFault(int signal, siginfo_t* info, void* context) {
  const auto* address = static_cast<const char*>(info->si_addr);
  // Async-signal safety: the fault is in compiled code, which holds no lock and does not allocate.
  const GuardedMemory* region = landing == nullptr ? nullptr : RegionAt(address);
  if (region != nullptr) {
    DescribeFault(address, *region, context);
    siglongjmp(*landing, 1);
  }
  const struct sigaction& previous = previous_action[signal];
  if (previous.sa_flags & SA_SIGINFO) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    sigaction(signal, &previous, nullptr);  // the access faults again, and kills the process
  }
}

// Installed once, and only in processes with guarded calls.
void InstallHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action {};
    action.sa_sigaction = HandleFault;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    for (const int signal : {SIGSEGV, SIGBUS}) sigaction(signal, &action, &previous_action[signal]);
  });
}

}  // namespace

GuardedMemory::GuardedMemory(int64_t bytes, GuardSide side, GuardKind kind, int64_t number)
    : bytes_(bytes), kind_(kind), number_(number) {
  page_bytes_ = RoundUp(std::max<int64_t>(bytes, 1), PageBytes());
  const int64_t zone = std::min(std::max(kMinZone, page_bytes_), kMaxZone);
  total_bytes_ = page_bytes_ + 2 * zone;
  void* const reserved = mmap(nullptr, static_cast<size_t>(total_bytes_), PROT_NONE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<char*>(reserved);
  pages_ = base_ + zone;
  if (bytes > 0 && mprotect(pages_, static_cast<size_t>(page_bytes_), PROT_READ | PROT_WRITE) != 0) {
    munmap(base_, static_cast<size_t>(total_bytes_));
    throw std::bad_alloc();
  }
  data_ = side == GuardSide::kEnd ? pages_ + page_bytes_ - bytes : pages_;
  std::lock_guard<std::mutex> lock(regions_mutex);
  regions.push_back(this);
}

GuardedMemory::~GuardedMemory() {
  {
    std::lock_guard<std::mutex> lock(regions_mutex);
    regions.erase(std::find(regions.begin(), regions.end(), this));
  }
  munmap(base_, static_cast<size_t>(total_bytes_));
}

void GuardedMemory::MakeReadOnly() {
  if (bytes_ > 0) mprotect(pages_, static_cast<size_t>(page_bytes_), PROT_READ);
}

std::string GuardedMemory::Describe() const {
  return std::string(kKindNames[kind_]) + " " + std::to_string(number_);
}

bool GuardedRun::TryCall(void (*body)(void*), void* argument) {
  InstallHandler();
  sigjmp_buf here;
  sigjmp_buf* const outer = landing;
  const bool is_well = sigsetjmp(here, 0) == 0;
  if (is_well) {
    landing = &here;
    body(argument);
  }
  landing = outer;
  if (is_well) return true;
  std::lock_guard<std::mutex> lock(mutex_);
  if (fault_.empty()) fault_ = message;
  return false;
}

std::string GuardedRun::Fault() {
  std::lock_guard<std::mutex> lock(mutex_);
  return fault_;
}

void GuardedRun::NoteMaskedAccess(const char* begin, int64_t bytes) const {
  std::string name;
  int64_t before = 0;
  int64_t behind = 0;
  {
    std::lock_guard<std::mutex> lock(regions_mutex);
    for (const GuardedMemory* region : regions) {
      if (!region->Covers(begin)) continue;
      name = region->Describe();
      before = std::max<int64_t>(region->data() - begin, 0);
      behind = std::max<int64_t>(begin + bytes - (region->data() + region->bytes()), 0);
    }
  }
  if (before == 0 && behind == 0) return;
  std::lock_guard<std::mutex> lock(masked_mutex);
  auto& most = masked_accesses[{kernel_, name}];
  most.first = std::max(most.first, before);
  most.second = std::max(most.second, behind);
}

GuardedRun* GuardedRun::Current() {
  return current_thread == nullptr ? nullptr : current_thread->run();
}

GuardedThread::GuardedThread(GuardedRun* run)
    : run_(run), outer_(std::exchange(current_thread, this)) {}

GuardedThread::~GuardedThread() { current_thread = outer_; }

GuardedThread* GuardedThread::Current() { return current_thread; }

void* GuardedThread::Scratch(int64_t number, int64_t bytes) {
  std::unique_ptr<GuardedMemory>& memory = scratch_[number];
  if (memory == nullptr || memory->bytes() != bytes) {
    memory.reset();
    memory = std::make_unique<GuardedMemory>(bytes, run_->side(), kGuardScratch, number);
  }
  std::memset(memory->data(), run_->filler(), static_cast<size_t>(bytes));
  return memory->data();
}

void SetGuardReport(std::string text) { report = std::move(text); }

std::string TakeGuardReport() { return std::exchange(report, {}); }

namespace {

// A buffer of a guarded call, with its own memory, or aliasing that of an earlier buffer.
struct Argument {
  std::unique_ptr<GuardedMemory> memory;
  char* original;
  size_t owner;  // index of the argument that owns the memory
  bool is_output;
};

// A guarded call: two runs of one kernel.
class GuardedCall {
 public:
  GuardedCall(relax_rt2_kernel kernel, void** buffers, const int64_t* sizes,
              relax_rt2_context* context, const relax_rt2_guarded_buffer* extents, int64_t count,
              int64_t outputs, int64_t number)
      : kernel_(kernel),
        buffers_(buffers),
        sizes_(sizes),
        context_(context),
        extents_(extents),
        count_(static_cast<size_t>(count)),
        first_output_(static_cast<size_t>(count - outputs)),
        number_(number) {}

  void Run() {
    const std::vector<void*> originals(buffers_, buffers_ + count_);
    const std::vector<Argument> first = RunOnce(GuardSide::kEnd, originals);
    if (first.empty()) return;
    const std::vector<Argument> second = RunOnce(GuardSide::kBegin, originals);
    if (second.empty()) return;
    for (size_t i = 0; i < count_; ++i) {
      if (first[i].owner == i && first[i].is_output) Write(first[i], second[i]);
    }
  }

 private:
  // The arguments after a run; empty if it failed.
  std::vector<Argument> RunOnce(GuardSide side, const std::vector<void*>& originals) {
    GuardedRun run(side, number_);
    std::vector<Argument> arguments = Place(run, originals);
    struct Body {
      GuardedCall* self;
      static void Call(void* body) {
        GuardedCall* const self = static_cast<Body*>(body)->self;
        self->kernel_(self->buffers_, self->sizes_, self->context_);
      }
    } body{this};
    {
      const GuardedThread thread(&run);
      run.TryCall(Body::Call, &body);
    }
    std::copy(originals.begin(), originals.end(), buffers_);
    if (const std::string fault = run.Fault(); !fault.empty()) Fail(fault);
    if (context_->failure != kRelaxRt2Ok) arguments.clear();
    return arguments;
  }

  // Copies the buffers to guarded memory; aliasing buffers share a copy.
  std::vector<Argument> Place(const GuardedRun& run, const std::vector<void*>& originals) {
    std::vector<Argument> arguments(count_);
    for (size_t i = 0; i < count_; ++i) {
      Argument& argument = arguments[i];
      argument = {nullptr, static_cast<char*>(originals[i]), i, i >= first_output_};
      for (size_t j = 0; j < i; ++j) {
        if (arguments[j].owner == j && Meets(j, arguments[j], i, argument)) argument.owner = j;
      }
    }
    for (size_t i = 0; i < count_; ++i) {
      if (arguments[i].owner == i) Copy(run, i, &arguments);
    }
    for (size_t i = 0; i < count_; ++i) {
      const Argument& owner = arguments[arguments[i].owner];
      buffers_[i] = owner.memory->data() + (arguments[i].original - owner.original);
    }
    return arguments;
  }

  bool Meets(size_t i, const Argument& lhs, size_t j, const Argument& rhs) const {
    return extents_[i].bytes > 0 && extents_[j].bytes > 0 &&
           lhs.original < rhs.original + extents_[j].bytes &&
           rhs.original < lhs.original + extents_[i].bytes;
  }

  // Allocates and fills the memory of argument `i`, and of those that alias it.
  void Copy(const GuardedRun& run, size_t i, std::vector<Argument>* arguments) {
    char* begin = (*arguments)[i].original;
    char* end = begin + extents_[i].bytes;
    bool is_shared = false;
    bool is_output = (*arguments)[i].is_output;
    for (size_t j = i + 1; j < count_; ++j) {
      const Argument& other = (*arguments)[j];
      if (other.owner != i) continue;
      begin = std::min(begin, other.original);
      end = std::max(end, other.original + extents_[j].bytes);
      is_shared = true;
      is_output = is_output || other.is_output;
    }
    auto memory = std::make_unique<GuardedMemory>(
        end - begin, run.side(), static_cast<GuardKind>(extents_[i].kind), extents_[i].number);
    const auto bytes = static_cast<size_t>(end - begin);
    // A program that works in place may read an input that it writes to.
    if (is_output && !is_shared && extents_[i].kind != kGuardInput) {
      std::memset(memory->data(), run.filler(), bytes);
    } else if (bytes > 0) {
      std::memcpy(memory->data(), begin, bytes);
    }
    if (!is_output) memory->MakeReadOnly();
    Argument& owner = (*arguments)[i];
    owner.memory = std::move(memory);
    owner.original = begin;
    owner.is_output = is_output;
  }

  // Copies the results back, except bytes that neither run wrote.
  void Write(const Argument& first, const Argument& second) {
    const auto* one = reinterpret_cast<const unsigned char*>(first.memory->data());
    const auto* other = reinterpret_cast<const unsigned char*>(second.memory->data());
    auto* target = reinterpret_cast<unsigned char*>(first.original);
    const int64_t bytes = first.memory->bytes();
    const unsigned char one_filler = GuardedRun(GuardSide::kEnd, 0).filler();
    const unsigned char other_filler = GuardedRun(GuardSide::kBegin, 0).filler();
    for (int64_t b = 0; b < bytes; ++b) {
      if (one[b] == other[b]) {
        target[b] = one[b];
      } else if (one[b] != one_filler || other[b] != other_filler) {
        return Fail("gives results that depend on bytes that nothing wrote, at byte " +
                    std::to_string(b) + " of " + first.memory->Describe());
      }
    }
  }

  void Fail(const std::string& what) {
    context_->failure = kRelaxRt2OutOfBounds;
    SetGuardReport("kernel " + std::to_string(number_) + ": " + what);
  }

  relax_rt2_kernel kernel_;
  void** buffers_;
  const int64_t* sizes_;
  relax_rt2_context* context_;
  const relax_rt2_guarded_buffer* extents_;
  size_t count_;
  size_t first_output_;
  int64_t number_;
};

// Returns and clears the masked accesses: kernel, buffer, largest distances before and past it.
tvm::ffi::Array<tvm::ffi::Any> TakeMaskedAccesses() {
  std::lock_guard<std::mutex> lock(masked_mutex);
  tvm::ffi::Array<tvm::ffi::Any> found;
  for (const auto& [key, most] : masked_accesses) {
    found.push_back(std::get<0>(key));
    found.push_back(tvm::ffi::String(std::get<1>(key)));
    found.push_back(most.first);
    found.push_back(most.second);
  }
  masked_accesses.clear();
  return found;
}

TVM_FFI_STATIC_INIT_BLOCK() {
  tvm::ffi::reflection::GlobalDef().def("relax_mlir.take_masked_accesses", TakeMaskedAccesses);
}

}  // namespace
}  // namespace relax_mlir

void relax_rt2_guarded_call(relax_rt2_kernel kernel, void** buffers, const int64_t* sizes,
                            void* context, const relax_rt2_guarded_buffer* extents, int64_t count,
                            int64_t outputs, int64_t number) {
  using namespace relax_mlir;
  auto* call = static_cast<relax_rt2_context*>(context);
  if (call->failure != kRelaxRt2Ok) return;
  try {
    GuardedCall(kernel, buffers, sizes, call, extents, count, outputs, number).Run();
  } catch (const std::bad_alloc&) {
    call->failure = kRelaxRt2OutOfMemory;
  }
}

void* relax_rt2_guarded_scratch(int64_t number, int64_t bytes) {
  try {
    return relax_mlir::GuardedThread::Current()->Scratch(number, bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void relax_rt2_masked_access(const void* address, int64_t bytes) {
  const relax_mlir::GuardedRun* run = relax_mlir::GuardedRun::Current();
  if (run != nullptr) run->NoteMaskedAccess(static_cast<const char*>(address), bytes);
}
