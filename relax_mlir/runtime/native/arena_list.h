// Free list of arenas, for concurrent calls of a program.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_ARENA_LIST_H_
#define RELAX_MLIR_RUNTIME_NATIVE_ARENA_LIST_H_

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "tensors.h"

namespace relax_mlir {

// Arenas for intermediate results, reused between calls; each running call has its own.
class ArenaList {
 public:
  struct Arena {
    AlignedMemory memory;
    int64_t bytes = 0;
  };

  Arena Take(int64_t bytes) {
    Arena arena;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!free_.empty()) {
        arena = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (arena.bytes < bytes) {
      arena.memory.reset();  // before the allocation, to limit peak memory
      arena.memory = AllocateAligned(bytes);
      arena.bytes = bytes;
    }
    return arena;
  }

  void Give(Arena arena) {
    std::lock_guard<std::mutex> lock(mutex_);
    free_.push_back(std::move(arena));
  }

 private:
  std::mutex mutex_;
  std::vector<Arena> free_;
};

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_ARENA_LIST_H_
