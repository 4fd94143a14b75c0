// A look-alike of NVIDIA's driver (libcuda.so.1) for machines without a GPU.
//
// The host's memory is the device's. A launch is told to a function that the test registers,
// which may compute what the kernel does; kernels are known from the text of their PTX. Work on
// a stream is done at once. Calls are counted, and can be made to fail.
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
  kLaunchFailed = 719,
  kCaptureUnsupported = 900,
};

// What tests see

typedef void (*Launched)(const char* kernel, const unsigned* grid, const unsigned* block,
                         unsigned shared_bytes, void** parameters);

#define MOST 64
static Launched on_launch;
static struct { const char* name; int count; } counts[MOST];
static struct { char name[64]; int countdown; CUresult error; } failures[MOST];
static int failure_count;
static size_t memory_bytes = (size_t)1 << 30, used_bytes;
static int devices = 1, capability = 90;

void stub_on_launch(Launched function) { on_launch = function; }
void stub_memory(size_t bytes) { memory_bytes = bytes; }
size_t stub_used(void) { return used_bytes; }
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

void stub_reset(void) {
  memset(counts, 0, sizeof counts);
  failure_count = 0;
  on_launch = NULL;
  memory_bytes = (size_t)1 << 30;
  devices = 1;
  capability = 90;
}

static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

static CUresult enter(const char* name) {
  CUresult error = 0;
  pthread_mutex_lock(&counting);
  int i = 0;
  while (i < MOST - 1 && counts[i].name && strcmp(counts[i].name, name)) ++i;
  counts[i].name = name;
  ++counts[i].count;
  for (i = 0; i < failure_count; ++i)
    if (!strcmp(failures[i].name, name) && --failures[i].countdown == 0) error = failures[i].error;
  pthread_mutex_unlock(&counting);
  return error;
}

static _Thread_local int contexts;  // that are current, one above the other

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
CUresult cuDriverGetVersion(int* version) { ENTER("cuDriverGetVersion"); *version = 13000; return 0; }
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

// Memory

#define HEADER_BYTES 256  // in front of what is given: how much it is

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  ENTER_CONTEXT("cuMemAlloc_v2");
  if (!bytes) return kInvalidValue;
  if (bytes > memory_bytes || used_bytes > memory_bytes - bytes) return kOutOfMemory;
  char* made = aligned_alloc(HEADER_BYTES, HEADER_BYTES + (bytes + 255) / 256 * 256);
  if (!made) return kOutOfMemory;
  *(size_t*)made = bytes;
  used_bytes += bytes;
  memset(made + HEADER_BYTES, 0xCB, bytes);
  *address = (CUdeviceptr)(made + HEADER_BYTES);
  return 0;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER_CONTEXT("cuMemFree_v2");
  char* made = (char*)address - HEADER_BYTES;
  used_bytes -= *(size_t*)made;
  free(made);
  return 0;
}

// Streams: a number, and what is being captured

enum Kind { kKernel, kCopy };

typedef struct Function Function;

typedef struct Node {
  enum Kind kind;
  Function* function;
  unsigned grid[3], block[3], shared_bytes;
  char* values;  // of the parameters
  CUdeviceptr to, from;
  size_t bytes;
  struct Node* next;
} Node;

typedef struct { Node *first, *last; } Graph;
typedef struct { Graph* captured; } Stream;

static CUresult check_stream(void* stream) {
  return stream && ((Stream*)stream)->captured ? kCaptureUnsupported : 0;
}

static void append(Graph* graph, Node* node) {
  if (graph->last) graph->last->next = node; else graph->first = node;
  graph->last = node;
}

CUresult cuStreamCreate(void** stream, unsigned flags) {
  ENTER_CONTEXT("cuStreamCreate");
  (void)flags;
  *stream = calloc(1, sizeof(Stream));
  return 0;
}

CUresult cuStreamDestroy_v2(void* stream) {
  ENTER_CONTEXT("cuStreamDestroy_v2");
  free(stream);
  return 0;
}

CUresult cuStreamSynchronize(void* stream) {
  ENTER_CONTEXT("cuStreamSynchronize");
  return check_stream(stream);
}

CUresult cuStreamWaitEvent(void* stream, void* event, unsigned flags) {
  ENTER_CONTEXT("cuStreamWaitEvent");
  (void)stream, (void)flags;
  return event ? 0 : kInvalidHandle;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
  if (check_stream(stream)) return kCaptureUnsupported;
  memcpy((void*)to, from, bytes);
  return 0;
}

CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
  if (check_stream(stream)) return kCaptureUnsupported;
  memcpy(to, (void*)from, bytes);
  return 0;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
  if (check_stream(stream)) {
    Node* node = calloc(1, sizeof(Node));
    *node = (Node){.kind = kCopy, .to = to, .from = from, .bytes = bytes};
    append(((Stream*)stream)->captured, node);
    return 0;
  }
  memmove((void*)to, (void*)from, bytes);
  return 0;
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
  if (check_stream(stream)) return kCaptureUnsupported;
  if (copy->src_memory != 2 || copy->dst_memory != 2) return kInvalidValue;
  if (copy->src_pitch < copy->width || copy->dst_pitch < copy->width) return kInvalidValue;
  for (size_t row = 0; row < copy->height; ++row)
    memcpy((char*)copy->dst_device + row * copy->dst_pitch,
           (char*)copy->src_device + row * copy->src_pitch, copy->width);
  return 0;
}

CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, void* stream) {
  ENTER_CONTEXT("cuMemsetD8Async");
  if (check_stream(stream)) return kCaptureUnsupported;
  memset((void*)to, value, bytes);
  return 0;
}

// Kernels

#define MOST_PARAMETERS 64

struct Function {
  char* name;
  int count, dynamic_bytes;
  size_t sizes[MOST_PARAMETERS];
};

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
  free(module);
  return 0;
}

// The bytes of a parameter: `.param .u64 ...` or `.param .align 64 .b8 name[128]`.
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
  const char* end = strstr(text, "\n)");
  while (end && (text = strstr(text, ".param ")) && text < end) {
    made->sizes[made->count++] = parameter_bytes(text);
    ++text;
  }
  *function = made;
  return 0;
}

CUresult cuFuncSetAttribute(void* function, int attribute, int value) {
  ENTER_CONTEXT("cuFuncSetAttribute");
  if (attribute != 8 || value > 232448) return kInvalidValue;
  ((Function*)function)->dynamic_bytes = value;
  return 0;
}

static void run(Function* function, const unsigned* grid, const unsigned* block, unsigned shared,
                void** parameters) {
  if (on_launch) on_launch(function->name, grid, block, shared, parameters);
}

CUresult cuLaunchKernel(void* handle, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                        unsigned by, unsigned bz, unsigned shared, void* stream,
                        void** parameters, void** extra) {
  ENTER_CONTEXT("cuLaunchKernel");
  Function* function = handle;
  const unsigned grid[3] = {gx, gy, gz}, block[3] = {bx, by, bz};
  int allowed = function->dynamic_bytes > 49152 ? function->dynamic_bytes : 49152;
  if (!gx || !gy || !gz || !bx || !by || !bz || bx * by * bz > 1024 || extra) return kInvalidValue;
  if (shared > (unsigned)allowed) return kInvalidValue;
  if (!check_stream(stream)) return run(function, grid, block, shared, parameters), 0;
  Node* node = calloc(1, sizeof(Node));
  *node = (Node){.kind = kKernel, .function = function, .shared_bytes = shared};
  memcpy(node->grid, grid, sizeof grid);
  memcpy(node->block, block, sizeof block);
  size_t total = 0;
  for (int i = 0; i < function->count; ++i) total += function->sizes[i];
  char* place = node->values = malloc(total + 1);
  for (int i = 0; i < function->count; place += function->sizes[i++])
    memcpy(place, parameters[i], function->sizes[i]);
  append(((Stream*)stream)->captured, node);
  return 0;
}

CUresult cuTensorMapEncodeTiled(char* map, int element, unsigned rank, void* address,
                                const uint64_t* sizes, const uint64_t* strides,
                                const uint32_t* box, const uint32_t* steps, int interleave,
                                int swizzle, int promotion, int fill) {
  ENTER("cuTensorMapEncodeTiled");
  (void)promotion, (void)fill;
  if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5) return kInvalidValue;
  for (unsigned i = 0; i < rank; ++i) {
    if (!sizes[i] || !box[i] || box[i] > 256 || steps[i] != 1) return kInvalidValue;
    if (i + 1 < rank && strides[i] % 16) return kInvalidValue;
  }
  const uint64_t words[4] = {(uint64_t)address, (uint64_t)element, rank, (uint64_t)swizzle};
  memset(map, 0, 128);
  memcpy(map, words, sizeof words);
  memcpy(map + sizeof words, sizes, rank * sizeof *sizes);
  return interleave ? kInvalidValue : 0;
}

// Graphs

CUresult cuStreamBeginCapture_v2(void* stream, int mode) {
  ENTER_CONTEXT("cuStreamBeginCapture_v2");
  (void)mode;
  if (!stream || ((Stream*)stream)->captured) return kCaptureUnsupported;
  ((Stream*)stream)->captured = calloc(1, sizeof(Graph));
  return 0;
}

CUresult cuStreamEndCapture(void* stream, void** graph) {
  ENTER_CONTEXT("cuStreamEndCapture");
  Graph* captured = ((Stream*)stream)->captured;
  ((Stream*)stream)->captured = NULL;
  if (!graph) return kInvalidValue;
  *graph = captured;
  return 0;
}

CUresult cuGraphInstantiateWithFlags(void** made, void* graph, uint64_t flags) {
  ENTER_CONTEXT("cuGraphInstantiateWithFlags");
  if (flags) return kInvalidValue;
  Graph* copy = malloc(sizeof(Graph));
  *copy = *(Graph*)graph;
  *made = copy;
  return 0;
}

CUresult cuGraphLaunch(void* graph, void* stream) {
  ENTER_CONTEXT("cuGraphLaunch");
  if (check_stream(stream)) return kCaptureUnsupported;
  for (Node* node = ((Graph*)graph)->first; node; node = node->next) {
    if (node->kind == kCopy) {
      memmove((void*)node->to, (void*)node->from, node->bytes);
      continue;
    }
    void* parameters[MOST_PARAMETERS];
    char* place = node->values;
    for (int i = 0; i < node->function->count; place += node->function->sizes[i++])
      parameters[i] = place;
    run(node->function, node->grid, node->block, node->shared_bytes, parameters);
  }
  return 0;
}

CUresult cuGraphDestroy(void* graph) {
  ENTER_CONTEXT("cuGraphDestroy");
  free(graph);
  return 0;
}

CUresult cuGraphExecDestroy(void* graph) {
  ENTER_CONTEXT("cuGraphExecDestroy");
  free(graph);
  return 0;
}

// Events

CUresult cuEventCreate(void** event, unsigned flags) {
  ENTER_CONTEXT("cuEventCreate");
  (void)flags;
  *event = calloc(1, sizeof(double));
  return 0;
}

CUresult cuEventDestroy_v2(void* event) {
  ENTER_CONTEXT("cuEventDestroy_v2");
  free(event);
  return 0;
}

CUresult cuEventRecord(void* event, void* stream) {
  ENTER_CONTEXT("cuEventRecord");
  if (check_stream(stream)) return kCaptureUnsupported;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  *(double*)event = 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
  return 0;
}

CUresult cuEventSynchronize(void* event) {
  ENTER_CONTEXT("cuEventSynchronize");
  return event ? 0 : kInvalidHandle;
}

CUresult cuEventElapsedTime(float* time_ms, void* first, void* then) {
  ENTER("cuEventElapsedTime");
  *time_ms = (float)(*(double*)then - *(double*)first);
  return 0;
}
