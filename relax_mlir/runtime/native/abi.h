// C ABI between compiled code and the runtime.
//
// The prefix is the version of the ABI: a change of a signature or its meaning gets a new
// prefix, so that old object code fails to load instead of misbehaving.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_ABI_H_
#define RELAX_MLIR_RUNTIME_NATIVE_ABI_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#define RELAX_RT2_EXPORT extern "C" __attribute__((visibility("default")))

// Durations of a call's kernels, in the order of the calls in `main`.
struct relax_rt2_profile {
  int64_t* durations_ns;  // of the first `capacity` kernels
  int64_t capacity;
  int64_t count;  // of kernels that ran; may exceed `capacity`
};

// State of one call of an executable, passed through by compiled code.
struct relax_rt2_context {
  int32_t threads;             // maximum, including the caller; 0 and 1: single-threaded
  int32_t failure;             // a relax_rt2_failure, for functions without a status
  relax_rt2_profile* profile;  // may be NULL
};

enum relax_rt2_failure : int32_t {
  kRelaxRt2Ok = 0,
  kRelaxRt2OutOfMemory = 1,  // scratch memory
  kRelaxRt2Exception = 2,    // a tile function threw
  kRelaxRt2OutOfBounds = 3,  // of a guarded kernel; see TakeGuardReport (guard.h)
  kRelaxRt2Interrupted = 4,  // a signal handler raised an exception, pending in Python
};

// Body of a parallel loop over independent tiles begin <= i < end. `scratch` is private memory,
// 64-byte aligned; NULL if the kernel requested none.
typedef void (*relax_rt2_tile)(void** buffers, const int64_t* sizes, void* scratch, int64_t begin,
                               int64_t end);

// The compiled program. Returns nonzero on failure, with the error raised in tvm-ffi.
typedef int32_t (*relax_rt2_main)(void** buffers, const int64_t* sizes, void* arena, void* context);

// A kernel, which passes its tiles to relax_rt2_parallel_for.
typedef void (*relax_rt2_kernel)(void** buffers, const int64_t* sizes, void* context);

// Computes the derived sizes after the symbols, in place.
typedef void (*relax_rt2_shapes)(int64_t* sizes);

// Parallel loop: runs `tile` over 0 <= i < tiles in chunks of `grain` tiles, on this thread and
// workers of the pool, and returns when all are done. `context` points to a relax_rt2_context;
// NULL means single-threaded. The duration is recorded in the context's profile, even without
// tiles, except for nested calls, which are part of the outer tile's time.
// Runs serially in one chunk if only one thread or chunk is possible, in nested calls, or if the
// pool is in use by another caller. Runs nothing after a kernel of the same call has failed.
RELAX_RT2_EXPORT void relax_rt2_parallel_for(void* context, relax_rt2_tile tile, void** buffers,
                                             const int64_t* sizes, int64_t tiles, int64_t grain,
                                             int64_t scratch_bytes);

// Interrupt flag: nonzero requests a call of relax_rt2_check_interrupt. Kernels poll it in
// long-running loops.
RELAX_RT2_EXPORT int32_t relax_rt2_attention;

// On the main thread, runs pending signal handlers. Does not return to a kernel that is aborted,
// because a handler raised an exception, or the kernel failed on another thread: it unwinds by
// longjmp. Compiled code calls it where it holds no resources.
RELAX_RT2_EXPORT void relax_rt2_check_interrupt(void);

// From now on other threads park forever when they return from, or begin, a call of an executable
// or another function of this library. For process exit.
RELAX_RT2_EXPORT void relax_rt2_close_calls(void);

// Number of threads in calls, excluding this one and parked ones.
RELAX_RT2_EXPORT int32_t relax_rt2_other_calls(void);

// A buffer of a guarded call.
struct relax_rt2_guarded_buffer {
  int64_t bytes;
  int64_t kind;    // a relax_mlir::GuardKind
  int64_t number;  // index of the input, output, constant or intermediate result
};

// Calls a kernel on buffers between guard pages, for code that was compiled with
// RELAX_MLIR_GUARD=1 (guard.h). The last `outputs` of `count` buffers are outputs; `number` is the
// index of the kernel call in `main`.
RELAX_RT2_EXPORT void relax_rt2_guarded_call(relax_rt2_kernel kernel, void** buffers,
                                             const int64_t* sizes, void* context,
                                             const relax_rt2_guarded_buffer* extents, int64_t count,
                                             int64_t outputs, int64_t number);

// Scratch buffer `number` of a tile of a guarded kernel, between guard pages; NULL: out of memory.
RELAX_RT2_EXPORT void* relax_rt2_guarded_scratch(int64_t number, int64_t bytes);

// Reports the bytes that a masked load or store of a guarded kernel would access without its mask.
RELAX_RT2_EXPORT void relax_rt2_masked_access(const void* address, int64_t bytes);

// Calls the tvm-ffi global function `name` with `count` tensors, including strides. Returns 0, or
// -1 with the error raised; also -1, without a call, after a kernel of the same call has failed.
// The function must not retain the tensors, since their memory is reused. Attributes are passed as
// one-element tensors (see the functions in sort.cc).
RELAX_RT2_EXPORT int32_t relax_rt2_call_packed(const char* name, int32_t count,
                                               DLTensor* arguments);

// How a constant is computed from another one: the first number of a derivation, and those after it.
enum relax_rt2_derivation : int64_t {
  // The elements in another order, padded with zeros: bytes of an element; the number of axes of
  // the source, and extent and stride, in elements, of each; the number of dimensions of the
  // result, and size, axis and factor of each. The element at the indices i is that at the
  // coordinates sum(factor * i) over the dimensions of an axis, or zero beyond the extent of one.
  kRelaxRt2PaddedCopy = 0,
  // M s M^T of f32, along the first two dimensions: rows and columns of M, the number of elements
  // of the other dimensions, and M as bits of f64.
  kRelaxRt2Transform = 1,
};

#define RELAX_RT2_MAX_DERIVATION_RANK 12
#define RELAX_RT2_MAX_TRANSFORM 8  // rows, and columns

// Computes a constant; the caller has checked all sizes. Returns a relax_rt2_failure.
RELAX_RT2_EXPORT int32_t relax_rt2_derive_constant(const int64_t* derivation, const void* source,
                                                   void* result, int32_t threads);

// Number of CPUs available to this process, by its affinity and its cgroup's quota.
RELAX_RT2_EXPORT int32_t relax_rt2_cpu_count(void);

// Instruction set extensions of this machine by LLVM's names, `+avx2,-avx512f`: a `+` if the
// processor has one and the system saves its registers. Those that kernels may use; others are not
// listed. AMX also needs relax_rt2_request_tiles. Empty where none are known.
RELAX_RT2_EXPORT const char* relax_rt2_cpu_features(void);

// Requests permission to use AMX tile registers for this process and all its threads; returns 1 if
// granted, else 0. Linux kills processes that use them without permission; a grant is permanent. It
// fails if the alternate signal stack of any thread is too small (ENOSPC), without AMX
// (EOPNOTSUPP), and before Linux 5.16 (EINVAL). After a grant, smaller signal stacks cannot be set
// (ENOMEM).
// Source: Linux, Documentation/arch/x86/xstate.rst and arch/x86/kernel/fpu/xstate.c.
RELAX_RT2_EXPORT int32_t relax_rt2_request_tiles(void);

// Maximum number of busy threads in this process, workers and callers of executables; callers
// always run, even above the limit. Defaults to relax_rt2_cpu_count, as of the first use.
RELAX_RT2_EXPORT int32_t relax_rt2_max_threads(void);

// Takes effect for subsequent kernels; may exceed the number of CPUs. A value <= 0 restores the
// default.
RELAX_RT2_EXPORT void relax_rt2_set_max_threads(int32_t count);

#endif  // RELAX_MLIR_RUNTIME_NATIVE_ABI_H_
