// A look-alike of NVIDIA's cuBLASLt for machines without a GPU, beside the stub of the driver.
//
// It checks what it gets as the library documents, and computes products one by one in the
// queues of the driver's streams. What it has chosen for one product is good for no other.
enum { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 14 };
enum { kNotInitialized = 1, kInvalidValue = 7, kNotSupported = 15 };
#include "stub_library.h"

enum { kComputeF32 = 68, kComputeF64 = 70, kComputeTf32 = 77 };
enum { kRelu = 2, kBias = 4 };

typedef struct { int compute, scale, turn[2], epilogue; void* bias; } Operation;
typedef struct { int type; uint64_t rows, columns; int64_t leading; int batch; int64_t step; } Layout;
typedef struct { uint64_t workspace; uint32_t schemes, alignment[4]; } Preference;
typedef struct { uint64_t key, alignment[4], workspace, unused[2]; } Algorithm;
typedef struct { Algorithm algorithm; size_t workspace; int state; float waves; int reserved[4]; } Result;

static char handles[1024];  // whose addresses are handles
static int made_handles;

static int is_handle(const void* address) {
  const char* at = address;
  return at >= handles && at < handles + made_handles;
}

int cublasLtCreate(void** handle) {
  ENTER("cublasLtCreate");
  if (made_handles == sizeof handles) return kInvalidValue;
  *handle = &handles[made_handles++];
  return 0;
}

size_t cublasLtGetVersion(void) { return 130100; }

const char* cublasLtGetStatusName(int status) {
  switch (status) {
    case kNotInitialized: return "CUBLAS_STATUS_NOT_INITIALIZED";
    case kInvalidValue: return "CUBLAS_STATUS_INVALID_VALUE";
    case kNotSupported: return "CUBLAS_STATUS_NOT_SUPPORTED";
    default: return "CUBLAS_STATUS_INTERNAL_ERROR";
  }
}

// Descriptors

int cublasLtMatmulDescCreate(Operation** made, int compute, int scale) {
  ENTER("cublasLtMatmulDescCreate");
  if (scale != (compute == kComputeF64 ? kF64 : kF32)) return kInvalidValue;
  *made = calloc(1, sizeof **made);
  **made = (Operation){.compute = compute, .scale = scale, .epilogue = 1};
  return 0;
}

int cublasLtMatmulDescSetAttribute(Operation* made, int attribute, const void* value, size_t bytes) {
  ENTER("cublasLtMatmulDescSetAttribute");
  size_t expected = attribute == 8 ? sizeof(void*) : sizeof(int32_t);
  if (bytes != expected) return kInvalidValue;
  int number = *(const int32_t*)value;
  switch (attribute) {
    case 3: case 4:
      if (number < 0 || number > 1) return kInvalidValue;
      made->turn[attribute - 3] = number;
      return 0;
    case 7:
      if (number != kRelu && number != kBias && number != (kRelu | kBias)) return kInvalidValue;
      made->epilogue = number;
      return 0;
    case 8: made->bias = *(void* const*)value; return 0;
    default: return kInvalidValue;
  }
}

int cublasLtMatrixLayoutCreate(Layout** made, int type, uint64_t rows, uint64_t columns, int64_t leading) {
  ENTER("cublasLtMatrixLayoutCreate");
  if (!item_bytes(type) || !rows || !columns || leading < (int64_t)rows) return kInvalidValue;
  *made = calloc(1, sizeof **made);
  **made = (Layout){type, rows, columns, leading, 1, 0};
  return 0;
}

int cublasLtMatrixLayoutSetAttribute(Layout* made, int attribute, const void* value, size_t bytes) {
  ENTER("cublasLtMatrixLayoutSetAttribute");
  if (attribute == 5 && bytes == 4) return made->batch = *(const int32_t*)value, 0;
  if (attribute == 6 && bytes == 8) return made->step = *(const int64_t*)value, 0;
  return kInvalidValue;
}

int cublasLtMatmulPreferenceCreate(Preference** made) {
  ENTER("cublasLtMatmulPreferenceCreate");
  *made = calloc(1, sizeof **made);
  **made = (Preference){0, 7, {256, 256, 256, 256}};
  return 0;
}

int cublasLtMatmulPreferenceSetAttribute(Preference* made, int attribute, const void* value, size_t bytes) {
  ENTER("cublasLtMatmulPreferenceSetAttribute");
  if (attribute == 1 && bytes == 8) return made->workspace = *(const uint64_t*)value, 0;
  if (bytes != 4) return kInvalidValue;
  uint32_t number = *(const uint32_t*)value;
  if (attribute == 3) return made->schemes = number, 0;
  if (attribute < 5 || attribute > 8 || !number) return kInvalidValue;
  made->alignment[attribute - 5] = number;
  return 0;
}

static int given_back(const char* name, void* made) {
  ENTER(name);
  free(made);
  return 0;
}

int cublasLtMatmulDescDestroy(void* made) { return given_back("cublasLtMatmulDescDestroy", made); }
int cublasLtMatrixLayoutDestroy(void* made) { return given_back("cublasLtMatrixLayoutDestroy", made); }
int cublasLtMatmulPreferenceDestroy(void* made) {
  return given_back("cublasLtMatmulPreferenceDestroy", made);
}

// Products

typedef struct {
  Operation operation;
  Layout a, b, d;
  const char *from_a, *from_b;
  char* to;
} Product;

// Whether types and sizes fit, as the tables of cublasLtMatmul() say.
static int check(const Operation* how, const Layout* a, const Layout* b, const Layout* c, const Layout* d) {
  int is_half = a->type == kF16 || a->type == kBf16;
  if (a->type != b->type || c->type != d->type) return kNotSupported;
  if (a->type != d->type && !(is_half && d->type == kF32)) return kNotSupported;
  if ((how->compute == kComputeF64) != (a->type == kF64)) return kNotSupported;
  if (how->compute == kComputeTf32 && a->type != kF32) return kNotSupported;
  uint64_t m = how->turn[0] ? a->columns : a->rows, k = how->turn[0] ? a->rows : a->columns;
  uint64_t depth = how->turn[1] ? b->columns : b->rows, n = how->turn[1] ? b->rows : b->columns;
  if (depth != k || d->rows != m || d->columns != n) return kInvalidValue;
  if (c->rows != m || c->columns != n || c->leading != d->leading) return kInvalidValue;
  if (a->batch != b->batch || a->batch != d->batch || c->batch != d->batch) return kInvalidValue;
  if (how->epilogue & kBias && !how->bias) return kInvalidValue;
  return 0;
}

static uint64_t key_of(const Operation* how, const Layout* a, const Layout* b, const Layout* d) {
  uint64_t key = 1469598103934665603u;
  const uint64_t parts[] = {how->compute, how->turn[0], how->turn[1], how->epilogue, a->type, d->type,
                            a->leading, b->leading, d->leading, d->rows, d->columns, a->rows, d->batch};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) key = (key ^ parts[i]) * 1099511628211u;
  return key;
}

int cublasLtMatmulAlgoGetHeuristic(void* handle, Operation* how, Layout* a, Layout* b, Layout* c,
                                   Layout* d, Preference* preference, int asked, Result* found,
                                   int* count) {
  ENTER("cublasLtMatmulAlgoGetHeuristic");
  if (!is_handle(handle) || asked < 1) return kInvalidValue;
  int status = check(how, a, b, c, d);
  if (status) return status;
  *count = 1;
  memset(found, 0, sizeof *found);
  found->algorithm.key = key_of(how, a, b, d);
  for (int i = 0; i < 4; ++i) found->algorithm.alignment[i] = preference->alignment[i];
  found->workspace = found->algorithm.workspace = preference->workspace < 4096 ? 0 : 4096;
  return 0;
}

static double factor(const char* from, const Layout* layout, int turn, int64_t row, int64_t column) {
  return load(from, layout->type, turn ? column + row * layout->leading : row + column * layout->leading);
}

static void multiply(void* data) {
  Product* p = data;
  const Operation* how = &p->operation;
  int64_t terms = how->turn[0] ? p->a.rows : p->a.columns;
  stub_touch((uint64_t)p->from_a), stub_touch((uint64_t)p->from_b), stub_touch((uint64_t)p->to);
  if (how->epilogue & kBias) stub_touch((uint64_t)how->bias);
  for (int64_t batch = 0; batch < p->d.batch; ++batch) {
    const char* a = p->from_a + batch * p->a.step * item_bytes(p->a.type);
    const char* b = p->from_b + batch * p->b.step * item_bytes(p->b.type);
    char* d = p->to + batch * p->d.step * item_bytes(p->d.type);
    for (int64_t column = 0; column < (int64_t)p->d.columns; ++column)
      for (int64_t row = 0; row < (int64_t)p->d.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < terms; ++k) {
          double left = factor(a, &p->a, how->turn[0], row, k);
          double right = factor(b, &p->b, how->turn[1], k, column);
          if (how->compute == kComputeTf32) left = rounded(left), right = rounded(right);
          sum += left * right;
        }
        if (how->epilogue & kBias) sum += load(how->bias, p->d.type, row);
        if (how->epilogue & kRelu && sum < 0) sum = 0;
        store(d, p->d.type, row + column * p->d.leading, sum);
      }
  }
}

static int is_one(const void* number, int type, double value) { return load(number, type, 0) == value; }

int cublasLtMatmul(void* handle, const Operation* how, const void* alpha, const void* from_a,
                   const Layout* a, const void* from_b, const Layout* b, const void* beta,
                   const void* from_c, const Layout* c, void* to, const Layout* d,
                   const Algorithm* algorithm, void* workspace, size_t workspace_bytes, void* stream) {
  ENTER("cublasLtMatmul");
  int status = check(how, a, b, c, d);
  if (status) return status;
  if (!is_handle(handle) || algorithm->key != key_of(how, a, b, d)) return kInvalidValue;
  if (!is_one(alpha, how->scale, 1) || !is_one(beta, how->scale, 0)) return kInvalidValue;
  if (workspace_bytes < algorithm->workspace || (uintptr_t)workspace % 16) return kInvalidValue;
  const void* pointers[] = {from_a, from_b, from_c, to};
  for (int i = 0; i < 4; ++i)
    if (!pointers[i] || (uintptr_t)pointers[i] % algorithm->alignment[i]) return kInvalidValue;
  Product product = {*how, *a, *b, *d, from_a, from_b, to};
  return stub_put(stream, multiply, &product, sizeof product) ? kNotSupported : 0;
}
