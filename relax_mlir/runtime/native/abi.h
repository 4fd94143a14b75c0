// What compiled code may call, and the types that it shares with the runtime.
//
// The prefix carries the version of this page: whatever changes a signature or a meaning
// gets a new prefix, so that old artefacts fail to load instead of misbehaving.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_ABI_H_
#define RELAX_MLIR_RUNTIME_NATIVE_ABI_H_

#include <dlpack/dlpack.h>
#include <stdint.h>

#define RELAX_RT2_EXPORT extern "C" __attribute__((visibility("default")))

// Where a call notes how long its kernels took, one after the other, as `main` calls them.
struct relax_rt2_profile {
  int64_t* durations_ns;  // of the first `capacity` kernels
  int64_t capacity;
  int64_t count;  // kernels that have run; may be more than `capacity`
};

// What one call of an executable knows about itself; compiled code passes it on.
struct relax_rt2_context {
  int32_t threads;             // the caller included; 0 and 1 mean: no other thread
  int32_t failure;             // a relax_rt2_failure, written where no status can be returned
  relax_rt2_profile* profile;  // NULL: nobody wants to know
};

enum relax_rt2_failure : int32_t {
  kRelaxRt2Ok = 0,
  kRelaxRt2OutOfMemory = 1,  // scratch memory
  kRelaxRt2Exception = 2,    // a tile function threw
  kRelaxRt2OutOfBounds = 3,  // a guarded kernel did what TakeGuardReport (guard.h) says
  kRelaxRt2Interrupted = 4,  // a signal handler raised an exception, which Python has
};

// A kernel over the independent tiles begin <= i < end. `scratch` is its own while it runs,
// 64-byte aligned; NULL if the kernel asked for none.
typedef void (*relax_rt2_tile)(void** buffers, const int64_t* sizes, void* scratch, int64_t begin,
                               int64_t end);

// The compiled program. Nonzero: it failed, and the error has been raised in tvm-ffi.
typedef int32_t (*relax_rt2_main)(void** buffers, const int64_t* sizes, void* arena, void* context);

// A kernel: hands its tiles to relax_rt2_parallel_for.
typedef void (*relax_rt2_kernel)(void** buffers, const int64_t* sizes, void* context);

// Fills the sizes after the symbols, in place.
typedef void (*relax_rt2_shapes)(int64_t* sizes);

// Runs `tile` over 0 <= i < tiles in pieces of `grain` tiles, on this thread and others of the
// pool, and returns when all are done. `context` points to a relax_rt2_context, or is NULL: one
// thread. How long it took is noted in the context's profile, without tiles too; not of a call from
// inside a tile, which is part of that tile's time.
// Everything runs on this thread, in one piece, when one thread or one piece is all there is,
// when the call comes from inside a tile, or when the pool works for another caller. Nothing runs
// after a kernel of the same call has failed.
RELAX_RT2_EXPORT void relax_rt2_parallel_for(void* context, relax_rt2_tile tile, void** buffers,
                                             const int64_t* sizes, int64_t tiles, int64_t grain,
                                             int64_t scratch_bytes);

// Not 0: whoever runs a kernel calls relax_rt2_check_interrupt soon. Kernels load it in loops that
// may run long.
RELAX_RT2_EXPORT int32_t relax_rt2_attention;

// On the main thread, runs the signal handlers of the program that are due. It does not return to a
// kernel that is to be left: because a handler raised an exception, or because the kernel has failed
// on another thread. Compiled code calls it where it holds no resources.
RELAX_RT2_EXPORT void relax_rt2_check_interrupt(void);

// From now on no thread but this one returns from a call of an executable, or of another function
// of this library, or begins one: it parks for good. For the end of a process.
RELAX_RT2_EXPORT void relax_rt2_close_calls(void);

// How many threads are in calls, this one and those that are parked left out.
RELAX_RT2_EXPORT int32_t relax_rt2_other_calls(void);

// A buffer of a guarded call.
struct relax_rt2_guarded_buffer {
  int64_t bytes;
  int64_t kind;    // a relax_mlir::GuardKind
  int64_t number;  // which input, output, constant or intermediate result it is
};

// Calls a kernel between guard pages, in code that was compiled with RELAX_MLIR_GUARD=1 (guard.h).
// The last `outputs` of `count` buffers are written; `number` is that of the call in `main`.
RELAX_RT2_EXPORT void relax_rt2_guarded_call(relax_rt2_kernel kernel, void** buffers,
                                             const int64_t* sizes, void* context,
                                             const relax_rt2_guarded_buffer* extents, int64_t count,
                                             int64_t outputs, int64_t number);

// Scratch buffer `number` of a tile of a guarded kernel, between guard pages; NULL: out of memory.
RELAX_RT2_EXPORT void* relax_rt2_guarded_scratch(int64_t number, int64_t bytes);

// Tells a guarded kernel's run which bytes a masked load or store would access without its mask.
RELAX_RT2_EXPORT void relax_rt2_masked_access(const void* address, int64_t bytes);

// Calls the tvm-ffi global function `name` with `count` tensors, strides included; 0, or -1 with
// the error raised. After a kernel of the same call has failed it calls nothing: -1. The function must not keep the tensors: their memory is used again.
// Attributes travel as one-element tensors (see the functions in sort.cc).
RELAX_RT2_EXPORT int32_t relax_rt2_call_packed(const char* name, int32_t count,
                                               DLTensor* arguments);

// The processors that this process may keep busy: its affinity and its cgroup's quota.
RELAX_RT2_EXPORT int32_t relax_rt2_cpu_count(void);

// Asks the system for leave to use the registers of AMX, for this process and all its threads; 1 if
// it is given, 0 if not. Linux kills who uses them without, and gives it for good. It refuses where
// a stack for signals, of any thread, is too small for them (ENOSPC), where the processor has none
// (EOPNOTSUPP), and before version 5.16 (EINVAL). From then on, smaller stacks for signals cannot
// be set (ENOMEM).
// Source: Linux, Documentation/arch/x86/xstate.rst and arch/x86/kernel/fpu/xstate.c.
RELAX_RT2_EXPORT int32_t relax_rt2_request_tiles(void);

// How many threads of the pool and callers of executables may work in this process at once; all
// callers do, if there are more. Until it is set, the processors that the process may keep busy
// when it is first asked for.
RELAX_RT2_EXPORT int32_t relax_rt2_max_threads(void);

// From the next kernels on; more than there are processors is possible. Not positive: as if it
// had never been set.
RELAX_RT2_EXPORT void relax_rt2_set_max_threads(int32_t count);

#endif  // RELAX_MLIR_RUNTIME_NATIVE_ABI_H_
