// Permission to use AMX tile registers, which Linux grants per process on request.
#include "tile_permission.h"

#include <atomic>

#include "abi.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace relax_mlir {
namespace {

std::atomic<bool> is_permitted{false};

bool RequestTiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, in no header before 5.16
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return false;
#endif
}

}  // namespace

void ReleaseTiles() {
#if defined(__linux__) && defined(__x86_64__)
  // tilerelease, as bytes for old assemblers.
  if (is_permitted.load()) asm volatile(".byte 0xc4, 0xe2, 0x78, 0x49, 0xc0");
#endif
}

}  // namespace relax_mlir

int32_t relax_rt2_request_tiles(void) {
  const bool is_given = relax_mlir::RequestTiles();
  if (is_given) relax_mlir::is_permitted.store(true);
  return is_given;
}
