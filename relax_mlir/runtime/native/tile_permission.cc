// Leave to use the registers of AMX, which Linux gives a process that asks for it.
#include "abi.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

int32_t relax_rt2_request_tiles(void) {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM, in no header before 5.16
  constexpr long kTileData = 18;               // the component of the saved state
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
#else
  return 0;
#endif
}
