// A look-alike of NVIDIA's driver (libcuda.so.1) for machines without a GPU.
//
// The host's memory is the device's. A launch is told to a function that the test registers,
// which may compute what the kernel does; kernels are known from the text of their PTX. Calls
// are counted, and can be made to fail.
//
// Work waits in the queue of its stream for as long as it may: until somebody waits for the
// stream or for an event behind it, or the test says so. What nobody waits for is not done, and
// what is changed too early is read too late.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef uint64_t CUdeviceptr;

enum {
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kInvalidContext = 201,
  kInvalidPtx = 218,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
};

// What tests see

typedef void (*Launched)(const char* text, const char* kernel, const unsigned* grid,
                         const unsigned* block, unsigned shared_bytes, void** parameters);

#define MOST 128
static const int kMaxPitch = 2147483647;
static Launched on_launch;
static struct { const char* name; int count; } counts[MOST];
static struct { char name[64]; int countdown; CUresult error; } failures[MOST];
static int failure_count;
static size_t memory_bytes = (size_t)1 << 30, used_bytes;
static int devices = 1, capability = 90, driver_version = 13000;
static int free_waits = 1, strays;

void stub_on_launch(Launched function) { on_launch = function; }
void stub_memory(size_t bytes) { memory_bytes = bytes; }
size_t stub_used(void) { return used_bytes; }
// Whether memory that is given back is used by queued work first: the driver only may wait.
void stub_free_waits(int waits) { free_waits = waits; }
// How often work has touched memory, or a kernel, that had been given back.
int stub_strays(void) { return strays; }
void stub_device(int count, int sm) { devices = count; capability = sm; }

int stub_count(const char* name) {
  for (int i = 0; i < MOST && counts[i].name; ++i)
    if (!strcmp(counts[i].name, name)) return counts[i].count;
  return 0;
}

// Call number `nth` from now on, from 1, gives an error instead of being done.
void stub_fail(const char* name, int nth, int error) {
  snprintf(failures[failure_count].name, 64, "%s", name);
  failures[failure_count].countdown = nth;
  failures[failure_count++].error = error;
}

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static CUresult enter(const char* name) {
  CUresult error = 0;
  pthread_mutex_lock(&counting);
  int i = 0;
  while (i < MOST - 1 && counts[i].name && counts[i].name != name) ++i;
  counts[i].name = name;
  ++counts[i].count;
  for (i = 0; i < failure_count; ++i)
    if (!strcmp(failures[i].name, name) && --failures[i].countdown == 0) error = failures[i].error;
  pthread_mutex_unlock(&counting);
  return error;
}

static _Thread_local int contexts;  // that are current, one above the other

// For other libraries.
int stub_enter(const char* name) { return enter(name); }
int stub_has_context(void) { return contexts > 0; }

#define ENTER(name)                     \
  do {                                  \
    CUresult injected = enter(name);    \
    if (injected) return injected;      \
  } while (0)
#define ENTER_CONTEXT(name)                \
  do {                                     \
    ENTER(name);                           \
    if (!contexts) return kInvalidContext; \
  } while (0)

// Errors

static const struct { CUresult error; const char *name, *text; } kErrors[] = {
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {kInvalidPtx, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {kCaptureUnsupported, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
};

CUresult cuGetErrorName(CUresult error, const char** text) {
  for (size_t i = 0; i < sizeof kErrors / sizeof *kErrors; ++i)
    if (kErrors[i].error == error) return *text = kErrors[i].name, 0;
  return kInvalidValue;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  for (size_t i = 0; i < sizeof kErrors / sizeof *kErrors; ++i)
    if (kErrors[i].error == error) return *text = kErrors[i].text, 0;
  return kInvalidValue;
}

// Devices

CUresult cuInit(unsigned flags) { ENTER("cuInit"); return flags ? kInvalidValue : 0; }
CUresult cuDriverGetVersion(int* version) {
  ENTER("cuDriverGetVersion");
  *version = driver_version;
  return 0;
}

CUresult cuDeviceGetCount(int* count) { ENTER("cuDeviceGetCount"); *count = devices; return 0; }

CUresult cuDeviceGet(int* device, int ordinal) {
  ENTER("cuDeviceGet");
  if (ordinal >= devices) return kInvalidValue;
  *device = ordinal;
  return 0;
}

CUresult cuDeviceGetName(char* text, int size, int device) {
  ENTER("cuDeviceGetName");
  snprintf(text, (size_t)size, "Stub %d", device);
  return 0;
}

CUresult cuDeviceGetAttribute(int* value, int attribute, int device) {
  ENTER("cuDeviceGetAttribute");
  (void)device;
  switch (attribute) {
    case 75: *value = capability / 10; return 0;
    case 76: *value = capability % 10; return 0;
    case 11: *value = kMaxPitch; return 0;
    case 97: *value = 232448; return 0;
    default: return kInvalidValue;
  }
}

CUresult cuDeviceTotalMem_v2(size_t* bytes, int device) {
  ENTER("cuDeviceTotalMem_v2");
  (void)device;
  *bytes = memory_bytes;
  return 0;
}

CUresult cuMemGetInfo_v2(size_t* left, size_t* bytes) {
  ENTER_CONTEXT("cuMemGetInfo_v2");
  *left = memory_bytes > used_bytes ? memory_bytes - used_bytes : 0;
  *bytes = memory_bytes;
  return 0;
}

CUresult cuDevicePrimaryCtxRetain(void** context, int device) {
  ENTER("cuDevicePrimaryCtxRetain");
  *context = (void*)(uintptr_t)(0xC0 + device);
  return 0;
}

CUresult cuCtxPushCurrent_v2(void* context) {
  ENTER("cuCtxPushCurrent_v2");
  if (!context) return kInvalidContext;
  ++contexts;
  return 0;
}

CUresult cuCtxPopCurrent_v2(void** context) {
  ENTER("cuCtxPopCurrent_v2");
  if (!contexts) return kInvalidContext;
  --contexts;
  *context = (void*)(uintptr_t)0xC0;
  return 0;
}

#include "stub_queues.h"

// Memory

#define HEADER_BYTES 256  // in front of what is given: how much it is, and what comes next

typedef struct Given { size_t bytes; struct Given* next; } Given;
static Given* given;

// Where the memory around an address begins, and how much it is; NULL if there is none. What
// was given back counts as long as queued work may use it.
char* stub_memory_at(CUdeviceptr address, size_t* bytes) {
  CUdeviceptr begin = 0;
  lock();
  for (Given* g = given; g; g = g->next) {
    CUdeviceptr own = (CUdeviceptr)g + HEADER_BYTES;
    if (address >= own && address < own + g->bytes) begin = own, *bytes = g->bytes;
  }
  for (Gone* g = gone; g; g = g->next)
    if (address >= g->address && address < g->address + g->bytes)
      begin = g->address, *bytes = g->bytes;
  unlock(0);
  return (char*)begin;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (!bytes) return kInvalidValue;
  if (bytes > memory_bytes || used_bytes > memory_bytes - bytes) return kOutOfMemory;
  char* made = aligned_alloc(HEADER_BYTES, HEADER_BYTES + (bytes + 255) / 256 * 256);
  if (!made) return kOutOfMemory;
  used_bytes += bytes;
  lock();
  *(Given*)made = (Given){bytes, given};
  given = (Given*)made;
  unlock(0);
  memset(made + HEADER_BYTES, 0xCB, bytes);
  *address = (CUdeviceptr)(made + HEADER_BYTES);
  return 0;
}

static int pointer_device;

// Of what GPU all addresses are.
void stub_driver_version(int version) { driver_version = version; }
void stub_pointer_device(int device) { pointer_device = device; }

CUresult cuPointerGetAttribute(void* data, int attribute, CUdeviceptr address) {
  ENTER_CONTEXT("cuPointerGetAttribute");
  if (attribute != 9 || !address) return kInvalidValue;
  *(int*)data = pointer_device;
  return 0;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER_CONTEXT("cuMemFree_v2");
  lock();
  if (free_waits && !depth) run_all();
  char* made = (char*)address - HEADER_BYTES;
  size_t bytes = ((Given*)made)->bytes;
  used_bytes -= bytes;
  Given** place = &given;
  while (*place != (Given*)made) place = &(*place)->next;
  *place = (*place)->next;
  if (free_waits && !depth) return free(made), unlock(0);
  if (!free_waits) memset((char*)address, 0xDD, bytes);
  Gone* g = malloc(sizeof(Gone));
  *g = (Gone){address, bytes, gone};
  gone = g;
  return unlock(0);
}

// Kernels that were told that they may begin before the one in front of them has ended.
static int overlapping;
int stub_overlapping(void) { return overlapping; }

void stub_reset(void) {
  overlapping = 0;
  on_launch = NULL;  // what is still in queues is of a test that is over
  stub_run_all();
  memset(counts, 0, sizeof counts);
  failure_count = 0;
  memory_bytes = (size_t)1 << 30;
  devices = 1;
  pointer_device = 0;
  capability = 90;
  driver_version = 13000;
  strays = 0;
  free_waits = 1;
  for (Gone* g = gone; g; g = gone) {
    gone = g->next;
    free((char*)g->address - HEADER_BYTES);
    free(g);
  }
}

CUresult cuStreamCreate(void** stream, unsigned flags) {
  ENTER_CONTEXT("cuStreamCreate");
  (void)flags;
  lock();
  *stream = new_stream();
  return unlock(0);
}

// What is in its queue is done all the same, some time; its handle is none any more.
CUresult cuStreamDestroy_v2(void* handle) {
  ENTER_CONTEXT("cuStreamDestroy_v2");
  lock();
  Stream* stream = found(handle);
  if (!stream || stream == &legacy || stream == per_thread) return unlock(kInvalidHandle);
  stream->is_gone = 1;
  return unlock(0);
}

CUresult cuStreamSynchronize(void* handle) {
  ENTER_CONTEXT("cuStreamSynchronize");
  lock();
  Stream* stream = found(handle);
  if (!stream) return unlock(kInvalidHandle);
  if (stream->captured) return unlock(kCaptureUnsupported);
  run_stream(stream, NULL);
  return unlock(0);
}

CUresult cuCtxSynchronize(void) {
  ENTER_CONTEXT("cuCtxSynchronize");
  stub_run_all();
  return 0;
}

CUresult cuStreamIsCapturing(void* handle, int* status) {
  ENTER_CONTEXT("cuStreamIsCapturing");
  Stream* stream = found(handle);
  if (!stream) return kInvalidHandle;
  *status = stream->captured != NULL;
  return 0;
}

CUresult cuStreamWaitEvent(void* stream, void* handle, unsigned flags) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  Event* event = handle;
  if (!event || flags) return kInvalidHandle;
  lock();
  if (!event->place) return unlock(found(stream) ? 0 : kInvalidHandle);
  return unlock(put(stream, (Node){.kind = kWait, .place = event->place}));
}

static CUresult put_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, void* stream,
                         int is_graph_node) {
  return put(stream, (Node){.kind = kCopy, .to = to, .from = from, .bytes = bytes, .rows = 1,
                            .is_graph_node = is_graph_node});
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  return put_copy(to, (CUdeviceptr)from, bytes, stream, 0);
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  return put_copy((CUdeviceptr)to, from, bytes, stream, 0);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  return put_copy(to, from, bytes, stream, 1);
}

typedef struct {
  size_t src_x, src_y;
  int src_memory;
  const void* src_host;
  CUdeviceptr src_device;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  int dst_memory;
  void* dst_host;
  CUdeviceptr dst_device;
  void* dst_array;
  size_t dst_pitch, width, height;
} Copy2D;

CUresult cuMemcpy2DAsync_v2(const Copy2D* copy, void* stream) {
  ENTER_CONTEXT("cuMemcpy2DAsync_v2");
  const size_t most = (size_t)kMaxPitch;
  if (copy->src_memory != 2 || copy->dst_memory != 2) return kInvalidValue;
  if (copy->src_pitch < copy->width || copy->dst_pitch < copy->width) return kInvalidValue;
  if (copy->src_pitch > most || copy->dst_pitch > most) return kInvalidValue;
  Node node = {.kind = kCopy, .to = copy->dst_device, .from = copy->src_device,
               .bytes = copy->width, .rows = copy->height, .to_pitch = copy->dst_pitch,
               .from_pitch = copy->src_pitch};
  return put(stream, node);
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemsetD8Async");
  return put(stream, (Node){.kind = kSet, .to = to, .bytes = bytes, .value = value});
}

// Kernels

static Function* functions;

CUresult cuModuleLoadDataEx(void** module, const char* text, unsigned count, int* options,
                            void** values) {
  ENTER_CONTEXT("cuModuleLoadDataEx");
  if (strstr(text, ".version")) return *module = strdup(text), 0;
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == 5) strcpy(values[i], "ptxas fatal: missing .version directive");
  return kInvalidPtx;
}

CUresult cuModuleUnload(void* module) {
  ENTER_CONTEXT("cuModuleUnload");
  for (Function* function = functions; function; function = function->next)
    if (function->module == module) function->is_gone = 1;
  free(module);
  return 0;
}

// The bytes of a parameter: `.param .u64 ...` or `.param .align 128 .b8 name[128]`.
static size_t parameter_bytes(const char* text) {
  size_t length = strcspn(text, ",)");
  const char* bracket = memchr(text, '[', length);
  if (bracket) return strtoul(bracket + 1, NULL, 10);
  const char* digits = strpbrk(text + strlen(".param ."), "0123456789");
  return strtoul(digits, NULL, 10) / 8;
}

CUresult cuModuleGetFunction(void** function, void* module, const char* name) {
  ENTER_CONTEXT("cuModuleGetFunction");
  char head[512];
  snprintf(head, sizeof head, ".entry %s(", name);
  const char* text = strstr(module, head);
  if (!text) return kNotFound;
  Function* made = calloc(1, sizeof(Function));
  made->name = strdup(name);
  made->module = module;
  made->next = functions;
  functions = made;
  const char* end = strstr(text, "\n)");
  while (end && (text = strstr(text, ".param ")) && text < end) {
    made->sizes[made->count++] = parameter_bytes(text);
    ++text;
  }
  *function = made;
  return 0;
}

// The static shared memory of a kernel: all `.shared .align 8 .b8 name[64];` in its body.
static int static_bytes(const Function* function) {
  char head[512];
  snprintf(head, sizeof head, ".entry %s(", function->name);
  const char* text = strstr(function->module, head) + strlen(head);
  const char* next = strstr(text, ".entry ");
  int total = 0;
  while ((text = strstr(text, ".shared .align ")) && (!next || text < next)) {
    const int align = atoi(text += strlen(".shared .align "));
    const size_t length = strcspn(text, ";");
    const char* bracket = memchr(text, '[', length);
    if (bracket) total = (total + align - 1) / align * align + atoi(bracket + 1);
  }
  return total;
}

CUresult cuFuncGetAttribute(int* value, int attribute, void* function) {
  ENTER_CONTEXT("cuFuncGetAttribute");
  if (attribute != 1) return kInvalidValue;
  *value = static_bytes(function);
  return 0;
}

CUresult cuFuncSetAttribute(void* function, int attribute, int value) {
  ENTER_CONTEXT("cuFuncSetAttribute");
  if (attribute != 8 || value + static_bytes(function) > 232448) return kInvalidValue;
  ((Function*)function)->dynamic_bytes = value;
  return 0;
}

typedef struct { int id; int pad; uint64_t value[8]; } LaunchAttribute;
typedef struct {
  unsigned gx, gy, gz, bx, by, bz, shared;
  void* stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
} LaunchConfig;

// Whether a kernel waits for the one in front of it.
static int waits(const Function* function) {
  char head[512];
  snprintf(head, sizeof head, ".entry %s(", function->name);
  const char* text = strstr(function->module, head) + strlen(head);
  const char *found = strstr(text, "griddepcontrol.wait"), *next = strstr(text, ".entry ");
  return found && (!next || found < next);
}

// Whether a launch may begin early: it waits itself, as does the kernel in front of it.
static int may_overlap(const LaunchConfig* config, const Function* function) {
  lock();
  Stream* stream = found(config->stream);
  const Function* before = stream ? stream->latest : NULL;
  if (stream && stream->captured) {
    const Node* last = stream->captured->last;
    before = last && last->kind == kKernel ? last->function : NULL;
  }
  unlock(0);
  const LaunchAttribute* only = config->attributes;
  return config->attribute_count == 1 && only->id == 6 && !only->pad && only->value[0] == 1 &&
         waits(function) && before && waits(before);
}

CUresult cuLaunchKernelEx(const LaunchConfig* config, void* handle, void** parameters,
                          void** extra) {
  ENTER_CONTEXT("cuLaunchKernelEx");
  Function* function = handle;
  const unsigned gx = config->gx, gy = config->gy, gz = config->gz, shared = config->shared;
  const unsigned bx = config->bx, by = config->by, bz = config->bz;
  if (config->attribute_count) {
    if (!may_overlap(config, function)) return kInvalidValue;
    ++overlapping;
  }
  const int rest = 49152 - static_bytes(function);
  const int allowed = function->dynamic_bytes > rest ? function->dynamic_bytes : rest;
  if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || extra) return kInvalidValue;
  if ((int)shared > allowed) return kInvalidValue;
  size_t total = 0;
  for (int i = 0; i < function->count; ++i) total += function->sizes[i];
  char *values = malloc(total + 1), *place = values;
  for (int i = 0; i < function->count; place += function->sizes[i++])
    memcpy(place, parameters[i], function->sizes[i]);
  return put(config->stream, (Node){.kind = kKernel, .function = function, .grid = {gx, gy, gz},
                            .block = {bx, by, bz}, .shared_bytes = shared, .values = values,
                            .is_graph_node = 1});
}

CUresult cuTensorMapEncodeTiled(char* map, int element, unsigned rank, void* address,
                                const uint64_t* sizes, const uint64_t* strides,
                                const uint32_t* box, const uint32_t* steps, int interleave,
                                int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  static const uint64_t element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  if ((uintptr_t)map % 128 || (uintptr_t)address % 16 || rank < 1 || rank > 5) return kInvalidValue;
  if (element < 0 || element > 12 || interleave || fill) return kInvalidValue;
  if (swizzle < 0 || swizzle > 3 || promotion < 0 || promotion > 3) return kInvalidValue;
  const uint64_t inner = box[0] * element_bytes[element];
  if (inner % 16 || (swizzle && inner > (uint64_t)16 << swizzle)) return kInvalidValue;
  for (unsigned i = 0; i < rank; ++i) {
    if (!sizes[i] || sizes[i] > (uint64_t)1 << 32) return kInvalidValue;
    if (!box[i] || box[i] > 256 || !steps[i] || steps[i] > 8) return kInvalidValue;
    if (i + 1 < rank && (strides[i] % 16 || strides[i] >> 40)) return kInvalidValue;
  }
  // As `tests.ptx_emulator.descriptors` reads it.
  memset(map, 0, 128);
  memcpy(map, &address, 8);
  map[8] = (char)element, map[9] = (char)rank, map[10] = (char)swizzle;
  memcpy(map + 16, sizes, rank * 8);
  memcpy(map + 56, strides, (rank - 1) * 8);
  for (unsigned i = 0; i < rank; ++i) {
    const uint16_t extent = (uint16_t)box[i];
    memcpy(map + 88 + 2 * i, &extent, 2);
    map[98 + i] = (char)steps[i];
  }
  return 0;
}

// Graphs

CUresult cuStreamBeginCapture_v2(void* handle, int mode) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  (void)mode;
  lock();
  Stream* stream = found(handle);
  if (!stream || stream == &legacy || stream->captured) return unlock(kCaptureUnsupported);
  stream->captured = calloc(1, sizeof(Graph));
  stream->captured->users = 1;
  return unlock(0);
}

CUresult cuStreamEndCapture(void* handle, void** graph) {
  ENTER_CONTEXT("cuStreamEndCapture");
  lock();
  Stream* stream = found(handle);
  if (!stream || !stream->captured || !graph) return unlock(kInvalidValue);
  *graph = stream->captured;
  stream->captured = NULL;
  return unlock(0);
}

CUresult cuGraphInstantiateWithFlags(void** made, void* graph, uint64_t flags) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  if (flags) return kInvalidValue;
  lock();
  ++((Graph*)graph)->users;
  *made = graph;
  return unlock(0);
}

CUresult cuGraphLaunch(void* graph, void* stream) {
  ENTER_CONTEXT("cuGraphLaunch");
  return put(stream, (Node){.kind = kGraph, .graph = graph});
}

CUresult cuGraphDestroy(void* graph) {
  ENTER_CONTEXT("cuGraphDestroy");
  lock();
  release_graph(graph);
  return unlock(0);
}

// What has been launched is done all the same.
CUresult cuGraphExecDestroy(void* graph) {
  ENTER_CONTEXT("cuGraphExecDestroy");
  lock();
  release_graph(graph);
  return unlock(0);
}

// Events

CUresult cuEventCreate(void** event, unsigned flags) {
  ENTER_CONTEXT("cuEventCreate");
  if (flags & ~2u) return kInvalidValue;
  Event* made = calloc(1, sizeof(Event));
  made->is_timed = !flags;
  *event = made;
  return 0;
}

CUresult cuEventDestroy_v2(void* handle) {
  ENTER_CONTEXT("cuEventDestroy_v2");
  Event* event = handle;
  lock();
  release_place(event->place);
  free(event);
  return unlock(0);
}

CUresult cuEventRecord(void* handle, void* stream) {
  ENTER_CONTEXT("cuEventRecord");
  Event* event = handle;
  lock();
  Place* place = calloc(1, sizeof(Place));
  place->stream = found(stream);
  place->users = 1;
  CUresult status = put(stream, (Node){.kind = kRecord, .place = place});
  if (status) return free(place), unlock(status);
  release_place(event->place);
  event->place = place;
  return unlock(0);
}

CUresult cuEventSynchronize(void* handle) {
  ENTER_CONTEXT("cuEventSynchronize");
  Place* place = ((Event*)handle)->place;
  lock();
  if (place && !place->is_past) run_stream(place->stream, place);
  return unlock(0);
}

CUresult cuEventQuery(void* handle) {
  ENTER_CONTEXT("cuEventQuery");
  Place* place = ((Event*)handle)->place;
  return place && !place->is_past ? kNotReady : 0;
}

CUresult cuEventElapsedTime(float* time_ms, void* first, void* then) {
  ENTER("cuEventElapsedTime");
  Event *begin = first, *end = then;
  if (!begin->is_timed || !end->is_timed || !begin->place || !end->place) return kInvalidHandle;
  if (!begin->place->is_past || !end->place->is_past) return kNotReady;
  *time_ms = (float)(end->place->time_ms - begin->place->time_ms);
  return 0;
}
