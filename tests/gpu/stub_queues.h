// The queues of the stub's streams, and what is done when their turn comes.
//
// It is part of stub_driver.c, which says what tests tell it.
#pragma once

// Streams: queues of work, or of what is being captured

enum Kind { kKernel, kCopy, kSet, kGraph, kRecord, kWait, kWork };

typedef struct Function Function;
typedef struct Node Node;
typedef struct { Node *first, *last; int users; } Graph;

typedef struct Stream {
  Node *first, *last;
  Function* latest;  // kernel, if nothing is behind it
  Graph* captured;
  int is_gone, is_running;
  struct Stream* next;
} Stream;

// A place in a stream; whoever waits for an event waits for the last place it was put.
typedef struct Place {
  Stream* stream;
  double time_ms;
  int is_past, users;
} Place;

typedef struct Event {
  Place* place;
  int is_timed;
} Event;

struct Node {
  enum Kind kind;
  Function* function;
  unsigned grid[3], block[3], shared_bytes;
  char* values;  // of the parameters
  void (*work)(void*);  // of another library, on values of its own
  CUdeviceptr to, from;
  size_t bytes, rows, to_pitch, from_pitch;
  unsigned char value;
  int is_graph_node;  // what may be captured
  Graph* graph;
  Place* place;
  Node* next;
};

static Stream legacy, *streams;
static int depth;  // of work that is being done
static _Thread_local Stream* per_thread;
static pthread_mutex_t queues;  // recursive: kernels may call the driver

__attribute__((constructor)) static void prepare(void) {
  pthread_mutexattr_t kind;
  pthread_mutexattr_init(&kind);
  pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&queues, &kind);
}

static void lock(void) { pthread_mutex_lock(&queues); }
static CUresult unlock(CUresult status) { return pthread_mutex_unlock(&queues), status; }

static Stream* new_stream(void) {
  Stream* made = calloc(1, sizeof(Stream));
  made->next = streams;
  return streams = made;
}

// The stream of a handle: 0 and 1 are the one that all share, 2 is one of the thread's own.
static Stream* found(void* handle) {
  if ((uintptr_t)handle < 2) return &legacy;
  if ((uintptr_t)handle == 2) return per_thread ? per_thread : (per_thread = new_stream());
  for (Stream* stream = streams; stream; stream = stream->next)
    if (stream == handle && !stream->is_gone) return stream;
  return NULL;
}

// Memory that was given back

typedef struct Gone { CUdeviceptr address; size_t bytes; struct Gone* next; } Gone;
static Gone* gone;  // which must not be touched

static void touch(CUdeviceptr address) {
  if (free_waits) return;
  for (Gone* g = gone; g; g = g->next)
    if (address >= g->address && address < g->address + g->bytes) ++strays;
}

// Work

#define MOST_PARAMETERS 64

struct Function {
  char* name;
  void* module;
  int count, dynamic_bytes, is_gone;
  size_t sizes[MOST_PARAMETERS];
  Function* next;
};

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static void run_stream(Stream* stream, const Place* until);

static void run_kernel(Node* node) {
  void* parameters[MOST_PARAMETERS];
  char* place = node->values;
  Function* function = node->function;
  if (function->is_gone) ++strays;
  for (int i = 0; i < function->count; place += function->sizes[i++]) {
    parameters[i] = place;
    if (function->sizes[i] == 8) touch(*(CUdeviceptr*)place);
  }
  if (on_launch)
    on_launch(function->module, function->name, node->grid, node->block, node->shared_bytes,
              parameters);
}

static void run_node(Node* node) {
  switch (node->kind) {
    case kKernel: run_kernel(node); break;
    case kCopy:
      touch(node->to), touch(node->from);
      for (size_t row = 0; row < node->rows; ++row)
        memmove((char*)node->to + row * node->to_pitch,
                (char*)node->from + row * node->from_pitch, node->bytes);
      break;
    case kSet:
      touch(node->to);
      memset((char*)node->to, node->value, node->bytes);
      break;
    case kGraph:
      for (Node* inner = node->graph->first; inner; inner = inner->next) run_node(inner);
      break;
    case kRecord:
      node->place->is_past = 1;
      node->place->time_ms = now_ms();
      break;
    case kWork: node->work(node->values); break;
    case kWait:
      if (!node->place->is_past) run_stream(node->place->stream, node->place);
      break;
  }
}

static void release_graph(Graph* graph);

static void release_place(Place* place) {
  if (place && --place->users == 0) free(place);
}

static void release_node(Node* node) {
  if (node->graph) release_graph(node->graph);
  release_place(node->place);
  free(node->values);
  free(node);
}

static void release_graph(Graph* graph) {
  if (--graph->users) return;
  for (Node *node = graph->first, *next; node; node = next) {
    next = node->next;
    release_node(node);
  }
  free(graph);
}

// Does the work of a stream, all of it or up to a place.
static void run_stream(Stream* stream, const Place* until) {
  if (stream->is_running) return;  // a kernel has called the driver
  stream->is_running = 1;
  int is_there = 0;
  while (stream->first && !is_there) {
    Node* node = stream->first;
    stream->first = node->next;
    if (!stream->first) stream->last = NULL;
    is_there = until && node->kind == kRecord && node->place == until;
    ++depth;
    run_node(node);
    --depth;
    release_node(node);
  }
  stream->is_running = 0;
}

static void run_all(void) {
  run_stream(&legacy, NULL);
  for (Stream* stream = streams; stream; stream = stream->next) run_stream(stream, NULL);
}

static CUresult put(void* handle, Node node) {
  lock();
  Stream* stream = found(handle);
  CUresult status = !stream ? kInvalidHandle
                    : stream->captured && !node.is_graph_node ? kCaptureUnsupported : 0;
  if (status) return free(node.values), unlock(status);
  Node* made = malloc(sizeof(Node));
  *made = node;
  if (made->graph) ++made->graph->users;
  if (made->place) ++made->place->users;
  if (!stream->captured) stream->latest = made->kind == kKernel ? made->function : NULL;
  Node **first = &stream->first, **last = &stream->last;
  if (stream->captured) first = &stream->captured->first, last = &stream->captured->last;
  if (*last) (*last)->next = made; else *first = made;
  *last = made;
  return unlock(0);
}

// For other libraries: work on a copy of some data, in the queue of a stream.
int stub_put(void* stream, void (*work)(void*), const void* data, size_t bytes) {
  char* values = malloc(bytes);
  memcpy(values, data, bytes);
  return put(stream, (Node){.kind = kWork, .work = work, .values = values, .is_graph_node = 1});
}

void stub_touch(CUdeviceptr address) { touch(address); }

// Does what is in the queue of a stream, now.
int stub_run(void* handle) {
  lock();
  Stream* stream = found(handle);
  if (stream) run_stream(stream, NULL);
  return unlock(stream ? 0 : kInvalidHandle);
}

void stub_run_all(void) {
  lock();
  run_all();
  unlock(0);
}
