// A look-alike of NVIDIA's cuDNN 9 for machines without a GPU, beside the stub of the driver.
//
// It checks what it gets as the library documents, says what is wrong, and computes graphs of a
// convolution one by one in the queues of the driver's streams. Engines that it lists first are not
// exact, are refused when they are planned, or need too much memory; numbers in f32 are rounded by
// one, and computed as they are by the one that only the second kind of heuristics lists.
enum { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 9 };
enum { kNotInitialized = 1001, kBadParam = 2000, kNotSupported = 3000 };
#include "stub_library.h"

typedef enum {
  kPointwise = 0, kConvolution = 1, kEngine = 2, kConfig = 3, kHeuristics = 4, kPlan = 5,
  kConvolve = 10, kMap = 13, kGraph = 15, kPack = 16, kTensor = 17
} Kind;
enum { kHandle = 0, kDataType = 1, kBoolean = 2, kInt64 = 3, kFloat = 4, kDouble = 5, kPointer = 6,
       kMode = 7, kHeurMode = 8, kNote = 11, kPointwiseMode = 14, kDescriptor = 15 };
enum { kAdd = 0, kRelu = 100 };
#define MOST 16

typedef struct { void* stream; int has_stream; } Handle;
typedef struct { int name, type; int64_t count; union { int64_t number; double real; void* pointer; } values[MOST]; } Slot;
typedef struct { int kind, is_final, used, engine; Slot slots[MOST]; struct Work* work; } Descriptor;
typedef struct { int type, rank, is_virtual; int64_t uid, sizes[MOST], strides[MOST]; } Tensor;
typedef struct Work {
  Tensor x, w, y, residual, bias;
  int has_residual, has_bias, is_relu, is_rounded;
  int64_t steps[3], dilations[3], pads[3];
  char *from_x, *from_w, *to, *from_residual, *from_bias, *workspace;
  size_t workspace_bytes;
} Work;

// Which attributes there are, and of what type.
static const struct { int kind, name, type; } kAttributes[] = {
    {kPointwise, 0, kPointwiseMode}, {kPointwise, 1, kDataType},
    {kConvolution, 100, kDataType}, {kConvolution, 101, kMode}, {kConvolution, 102, kInt64},
    {kConvolution, 103, kInt64}, {kConvolution, 104, kInt64}, {kConvolution, 105, kInt64},
    {kConvolution, 106, kInt64},
    {kHeuristics, 200, kHeurMode}, {kHeuristics, 201, kDescriptor},
    {kPlan, 400, kHandle}, {kPlan, 401, kDescriptor},
    {kConvolve, 700, kDouble}, {kConvolve, 701, kDouble}, {kConvolve, 702, kDescriptor},
    {kConvolve, 703, kDescriptor}, {kConvolve, 704, kDescriptor}, {kConvolve, 705, kDescriptor},
    {kMap, 750, kDescriptor}, {kMap, 751, kDescriptor}, {kMap, 752, kDescriptor}, {kMap, 753, kDescriptor},
    {kGraph, 800, kHandle}, {kGraph, 801, kDescriptor},
    {kPack, 1000, kInt64}, {kPack, 1001, kPointer}, {kPack, 1003, kPointer},
    {kTensor, 900, kInt64}, {kTensor, 901, kDataType}, {kTensor, 902, kInt64}, {kTensor, 903, kInt64},
    {kTensor, 906, kInt64}, {kTensor, 907, kBoolean},
};
static const int kOptional[] = {752, 907};

// The engines, by number: what they are noted for, whether they can be planned, their workspace.
static const struct { int note, status; size_t workspace; } kEngines[] = {
    {5, 0, 0},                    // Winograd
    {3, 0, 0},                    // Fourier
    {4, 0, 0},                    // another result each time
    {1, 0, 0},                    // factors of fewer bits
    {0, kNotSupported, 0},        // tensor cores
    {0, 0, (size_t)1 << 40},
    {0, 0, 4096},
    {-1, 0, 1024},
};
enum { kFirstOfFallback = 7, kEngineCount = 8 };

static _Thread_local const char* said = "";

static int refused(int status, const char* why) { return said = why, status; }

size_t cudnnGetVersion(void) { return 92800; }
size_t cudnnGetCudartVersion(void) { return 13000; }

const char* cudnnGetErrorString(int status) {
  switch (status) {
    case 0: return "CUDNN_STATUS_SUCCESS";
    case kNotInitialized: return "CUDNN_STATUS_NOT_INITIALIZED";
    case kBadParam: return "CUDNN_STATUS_BAD_PARAM";
    case kNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_INTERNAL_ERROR";
  }
}

void cudnnGetLastErrorString(char* text, size_t bytes) {
  strncpy(text, said, bytes - 1);
  text[bytes - 1] = 0;
  said = "";
}

int cudnnCreate(Handle** made) {
  ENTER("cudnnCreate");
  *made = calloc(1, sizeof **made);
  return 0;
}

int cudnnSetStream(Handle* handle, void* stream) {
  ENTER("cudnnSetStream");
  *handle = (Handle){stream, 1};
  return 0;
}

// Descriptors

int cudnnBackendCreateDescriptor(int kind, Descriptor** made) {
  ENTER("cudnnBackendCreateDescriptor");
  *made = calloc(1, sizeof **made);
  (*made)->kind = kind;
  return 0;
}

int cudnnBackendDestroyDescriptor(Descriptor* made) {
  ENTER("cudnnBackendDestroyDescriptor");
  free(made->work);
  free(made);
  return 0;
}

static const Slot* slot(const Descriptor* of, int name) {
  for (int i = 0; i < of->used; ++i)
    if (of->slots[i].name == name) return &of->slots[i];
  return NULL;
}

static int64_t number(const Descriptor* of, int name) { return slot(of, name) ? slot(of, name)->values[0].number : 0; }
static Descriptor* part(const Descriptor* of, int name) { return slot(of, name)->values[0].pointer; }

int cudnnBackendSetAttribute(Descriptor* made, int name, int type, int64_t count, const void* values) {
  ENTER("cudnnBackendSetAttribute");
  if (made->is_final || slot(made, name)) return refused(kNotInitialized, "the descriptor is final");
  if (count < 1 || count > MOST) return refused(kBadParam, "elementCount");
  for (size_t i = 0; i < sizeof kAttributes / sizeof *kAttributes; ++i) {
    if (kAttributes[i].kind != made->kind || kAttributes[i].name != name) continue;
    const int is_either = kAttributes[i].type == kDouble && type == kFloat;  // alpha, beta
    if (kAttributes[i].type != type && !is_either) return refused(kBadParam, "attributeType");
    Slot* at = &made->slots[made->used++];
    *at = (Slot){.name = name, .type = type, .count = count};
    for (int n = 0; n < count; ++n) switch (type) {
        case kInt64: at->values[n].number = ((const int64_t*)values)[n]; break;
        case kFloat: at->values[n].real = ((const float*)values)[n]; break;
        case kDouble: at->values[n].real = ((const double*)values)[n]; break;
        case kBoolean: at->values[n].number = ((const char*)values)[n]; break;
        case kHandle: case kPointer: at->values[n].pointer = ((void* const*)values)[n]; break;
        case kDescriptor:
          at->values[n].pointer = ((void* const*)values)[n];
          if (!((Descriptor*)at->values[n].pointer)->is_final) return refused(kBadParam, "a part is not final");
          break;
        default: at->values[n].number = ((const int*)values)[n];
      }
    return 0;
  }
  return refused(kBadParam, "attributeName");
}

static int is_complete(const Descriptor* made) {
  for (size_t i = 0; i < sizeof kAttributes / sizeof *kAttributes; ++i) {
    if (kAttributes[i].kind != made->kind || slot(made, kAttributes[i].name)) continue;
    int is_needed = 1;
    for (int n = 0; n < 2; ++n) is_needed &= kOptional[n] != kAttributes[i].name;
    if (is_needed) return 0;
  }
  return 1;
}

static Tensor tensor_of(const Descriptor* made) {
  Tensor t = {.type = (int)number(made, 901), .rank = (int)slot(made, 902)->count,
              .is_virtual = (int)number(made, 907), .uid = number(made, 906)};
  for (int i = 0; i < t.rank; ++i) {
    t.sizes[i] = slot(made, 902)->values[i].number;
    t.strides[i] = slot(made, 903)->values[i].number;
  }
  return t;
}

static int check_tensor(const Descriptor* made) {
  const Tensor t = tensor_of(made);
  if (!item_bytes(t.type)) return refused(kNotSupported, "dataType");
  if (t.rank < 4 || t.rank > 5 || slot(made, 903)->count != t.rank) return refused(kBadParam, "dimensions");
  for (int i = 0; i < t.rank; ++i)
    if (t.sizes[i] < 1 || t.strides[i] < 1) return refused(kBadParam, "dimensions, strides");
  return number(made, 900) % 16 ? refused(kBadParam, "alignment") : 0;
}

static int check_convolution(const Descriptor* made) {
  int64_t rank = number(made, 106);
  if (rank < 2 || rank > 3 || number(made, 101) != 1) return refused(kBadParam, "spatial dimensions, mode");
  for (int name = 102; name < 106; ++name) {
    if (slot(made, name)->count != rank) return refused(kBadParam, "a count is not that of dimensions");
    for (int i = 0; i < rank; ++i)
      if (slot(made, name)->values[i].number < (name < 104)) return refused(kBadParam, "strides, pads");
  }
  return 0;
}

static int check_convolve(const Descriptor* made) {
  const Descriptor* how = part(made, 702);
  const Tensor w = tensor_of(part(made, 703)), x = tensor_of(part(made, 704)), y = tensor_of(part(made, 705));
  const int rank = (int)number(how, 106);
  const int real = number(how, 100) == kF64 ? kDouble : kFloat;
  // The library takes others, and reads their first bytes: a double's 1 is a float's 0.
  if (slot(made, 700)->type != real || slot(made, 701)->type != real)
    return refused(kBadParam, "alpha, beta: of another type than the sums");
  if (slot(made, 700)->values[0].real != 1 || slot(made, 701)->values[0].real != 0)
    return refused(kNotSupported, "alpha, beta");
  if (x.rank != rank + 2 || w.rank != x.rank || y.rank != x.rank) return refused(kBadParam, "dimensions");
  if (x.sizes[1] % w.sizes[1] || w.sizes[0] % (x.sizes[1] / w.sizes[1])) return refused(kBadParam, "groups");
  if (x.sizes[0] != y.sizes[0] || y.sizes[1] != w.sizes[0]) return refused(kBadParam, "sizes of y");
  for (int i = 0; i < rank; ++i) {
    int64_t reach = slot(how, 102)->values[i].number * (w.sizes[2 + i] - 1) + 1;
    int64_t pads = slot(how, 104)->values[i].number + slot(how, 105)->values[i].number;
    int64_t room = x.sizes[2 + i] + pads - reach;
    if (room < 0 || y.sizes[2 + i] != room / slot(how, 103)->values[i].number + 1)
      return refused(kBadParam, "sizes of y");
  }
  return 0;
}

static int are_alike(const int64_t* these, const int64_t* those) { return !memcmp(these, those, 5 * sizeof *these); }

// What a graph computes: a convolution, then a residual, a bias and a ReLU. Without a bias, others
// are not known.
static int read_graph(const Descriptor* made, Work* work) {
  const Slot* operations = slot(made, 801);
  const Descriptor* first = operations->values[0].pointer;
  if (first->kind != kConvolve) return refused(kNotSupported, "the first operation");
  const Descriptor *how = part(first, 702), *last = part(first, 705);
  *work = (Work){.x = tensor_of(part(first, 704)), .w = tensor_of(part(first, 703))};
  const int sums = (int)number(how, 100);
  if (work->x.type != work->w.type || sums != (work->x.type == kF64 ? kF64 : kF32))
    return refused(kNotSupported, "types of x, w, sums");
  for (int i = 0; i < number(how, 106); ++i) {
    work->dilations[i] = slot(how, 102)->values[i].number;
    work->steps[i] = slot(how, 103)->values[i].number;
    work->pads[i] = slot(how, 105)->values[i].number;
    if (slot(how, 104)->values[i].number != work->pads[i]) return refused(kNotSupported, "pads differ");
  }
  for (int n = 1; n < operations->count; ++n) {
    const Descriptor* map = operations->values[n].pointer;
    const Tensor before = tensor_of(last);
    if (map->kind != kMap || part(map, 751) != last || !before.is_virtual || before.type != sums)
      return refused(kBadParam, "operations do not follow each other");
    last = part(map, 753);
    int64_t mode = number(part(map, 750), 0);
    if (number(part(map, 750), 1) != sums || work->is_relu || (mode != kAdd && mode != kRelu))
      return refused(kNotSupported, "an operation");
    if (mode == kRelu) {
      if (!work->has_bias || slot(map, 752)) return refused(kNotSupported, "a ReLU");
      work->is_relu = 1;
      continue;
    }
    const Tensor added = tensor_of(part(map, 752));
    if (added.type != work->x.type || added.is_virtual || work->has_bias) return refused(kNotSupported, "a sum");
    if (are_alike(added.sizes, before.sizes) && are_alike(added.strides, before.strides) && !work->has_residual)
      work->has_residual = 1, work->residual = added;
    else if (added.sizes[0] == 1 && added.sizes[1] == before.sizes[1] && added.strides[1] == 1)
      work->has_bias = 1, work->bias = added;
    else
      return refused(kNotSupported, "what is added");
  }
  work->y = tensor_of(last);
  if (work->y.is_virtual || work->y.type != work->x.type) return refused(kNotSupported, "the result");
  return work->has_residual && !work->has_bias ? refused(kNotSupported, "a residual without a bias") : 0;
}

// Whether a heuristic lists an engine.
static int lists(const Descriptor* heuristics, int engine) {
  if (number(heuristics, 200) == 2) return engine >= kFirstOfFallback;
  return engine < kFirstOfFallback && heuristics->work->x.type != kF64;
}

int cudnnBackendFinalize(Descriptor* made) {
  ENTER("cudnnBackendFinalize");
  if (made->is_final || !is_complete(made)) return refused(kBadParam, "an attribute is missing");
  int status = 0;
  switch (made->kind) {
    case kTensor: status = check_tensor(made); break;
    case kConvolution: status = check_convolution(made); break;
    case kConvolve: status = check_convolve(made); break;
    case kPack:
      if (slot(made, 1000)->count != slot(made, 1001)->count) status = refused(kBadParam, "pointers");
      break;
    case kGraph:
      made->work = malloc(sizeof *made->work);
      status = read_graph(made, made->work);
      break;
    case kHeuristics:
      if (number(made, 200) != 2 && number(made, 200) != 3) return refused(kBadParam, "mode");
      made->work = malloc(sizeof *made->work);
      *made->work = *part(made, 201)->work;
      break;
    case kPlan: {
      const Descriptor* config = part(made, 401);
      if (kEngines[config->engine].status) return refused(kEngines[config->engine].status, "no kernel");
      made->engine = config->engine;
      made->work = malloc(sizeof *made->work);
      *made->work = *config->work;
      made->work->is_rounded = kEngines[made->engine].note == 0;
      made->work->workspace_bytes = kEngines[made->engine].workspace;
    }
  }
  made->is_final = !status;
  return status;
}

static int fill(Descriptor* into, int kind, int engine, const Work* work) {
  if (into->kind != kind || into->is_final) return refused(kBadParam, "arrayOfElements");
  into->engine = engine, into->is_final = 1;
  into->work = malloc(sizeof *into->work);
  *into->work = *work;
  return 0;
}

int cudnnBackendGetAttribute(Descriptor* made, int name, int type, int64_t most, int64_t* count, void* values) {
  ENTER("cudnnBackendGetAttribute");
  if (!made->is_final) return refused(kNotInitialized, "the descriptor is not final");
  *count = 0;
  if (made->kind == kHeuristics && name == 202 && type == kDescriptor) {
    for (int engine = 0; engine < kEngineCount; ++engine) {
      if (!lists(made, engine) || (most && *count == most)) continue;
      if (most && fill(((Descriptor**)values)[*count], kConfig, engine, made->work)) return kBadParam;
      ++*count;
    }
    return 0;
  }
  if (made->kind == kConfig && name == 300 && type == kDescriptor)
    return *count = 1, most ? fill(((Descriptor**)values)[0], kEngine, made->engine, made->work) : 0;
  if (made->kind == kEngine && name == 1303 && type == kNote) {
    int note = kEngines[made->engine].note;
    if (note >= 0 && most) ((int*)values)[0] = note, *count = 1;
    return 0;
  }
  if (made->kind == kPlan && name == 402 && type == kInt64)
    return ((int64_t*)values)[0] = (int64_t)made->work->workspace_bytes, *count = 1, 0;
  return refused(kBadParam, "attributeName");
}

// Work

static double seen(const Work* k, int64_t picture, int64_t channel, const int64_t* at, int64_t filter,
                   int64_t c, const int64_t* tap) {
  int64_t place = picture * k->x.strides[0] + channel * k->x.strides[1];
  int64_t own = filter * k->w.strides[0] + c * k->w.strides[1];
  for (int i = 0; i < k->x.rank - 2; ++i) {
    int64_t where = at[i] * k->steps[i] + tap[i] * k->dilations[i] - k->pads[i];
    if (where < 0 || where >= k->x.sizes[2 + i]) return 0;
    place += where * k->x.strides[2 + i];
    own += tap[i] * k->w.strides[2 + i];
  }
  double left = load(k->from_x, k->x.type, place), right = load(k->from_w, k->w.type, own);
  if (k->x.type == kF32 && k->is_rounded) left = rounded(left), right = rounded(right);
  return left * right;
}

// The place after `at` in a box; 0 behind the last one.
static int next(int rank, int64_t* at, const int64_t* sizes) {
  for (int i = rank - 1; i >= 0; --i) {
    if (++at[i] < sizes[i]) return 1;
    at[i] = 0;
  }
  return 0;
}

static void compute(void* data) {
  const Work* k = data;
  const int rank = k->x.rank - 2;
  const int64_t in_group = k->w.sizes[1], filters = k->w.sizes[0] / (k->x.sizes[1] / in_group);
  const char* touched[] = {k->from_x, k->from_w, k->to, k->from_residual, k->from_bias, k->workspace};
  for (int i = 0; i < 6; ++i)
    if (touched[i]) stub_touch((uint64_t)touched[i]);
  if (k->workspace_bytes) stub_touch((uint64_t)k->workspace + k->workspace_bytes - 1);
  for (int64_t picture = 0; picture < k->y.sizes[0]; ++picture)
    for (int64_t filter = 0; filter < k->w.sizes[0]; ++filter) {
      int64_t at[3] = {0};
      do {
        double sum = 0;
        for (int64_t c = 0; c < in_group; ++c) {
          int64_t tap[3] = {0};
          do
            sum += seen(k, picture, filter / filters * in_group + c, at, filter, c, tap);
          while (next(rank, tap, k->w.sizes + 2));
        }
        int64_t place = picture * k->y.strides[0] + filter * k->y.strides[1];
        for (int i = 0; i < rank; ++i) place += at[i] * k->y.strides[2 + i];
        if (k->from_residual) sum += load(k->from_residual, k->y.type, place);
        if (k->from_bias) sum += load(k->from_bias, k->y.type, filter);
        if (k->is_relu && sum < 0) sum = 0;
        store(k->to, k->y.type, place, sum);
      } while (next(rank, at, k->y.sizes + 2));
    }
}

static char* address(const Descriptor* pack, const Tensor* of) {
  for (int i = 0; i < slot(pack, 1000)->count; ++i)
    if (slot(pack, 1000)->values[i].number == of->uid) return slot(pack, 1001)->values[i].pointer;
  return NULL;
}

int cudnnBackendExecute(const Handle* handle, const Descriptor* plan, const Descriptor* pack) {
  ENTER("cudnnBackendExecute");
  if (!handle || !handle->has_stream) return refused(kBadParam, "handle without a stream");
  if (plan->kind != kPlan || pack->kind != kPack || !plan->is_final || !pack->is_final)
    return refused(kBadParam, "a descriptor is not final");
  Work work = *plan->work;
  work.from_x = address(pack, &work.x), work.from_w = address(pack, &work.w), work.to = address(pack, &work.y);
  if (work.has_residual) work.from_residual = address(pack, &work.residual);
  if (work.has_bias) work.from_bias = address(pack, &work.bias);
  work.workspace = slot(pack, 1003)->values[0].pointer;
  if (slot(pack, 1000)->count != 3 + work.has_residual + work.has_bias) return refused(kBadParam, "pointers");
  const char* needed[] = {work.from_x, work.from_w, work.to, work.workspace, work.has_residual ? work.from_residual : work.to,
                          work.has_bias ? work.from_bias : work.to};
  for (int i = 0; i < 6; ++i)
    if (!needed[i] || (uintptr_t)needed[i] % 16) return refused(kBadParam, "a pointer");
  if (work.from_x == work.to || work.from_w == work.to) return refused(kBadParam, "x is y");
  return stub_put(handle->stream, compute, &work, sizeof work) ? kNotSupported : 0;
}
