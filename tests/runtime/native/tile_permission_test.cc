#include "abi.h"
#include "check.h"

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>

// Whether the kernel lets this process use tiles now; false where it does not know of such.
bool IsPermitted() {
  constexpr long kGetPermission = 0x1022;  // ARCH_GET_XCOMP_PERM
  uint64_t components = 0;
  return syscall(SYS_arch_prctl, kGetPermission, &components) == 0 && (components >> 18 & 1);
}
#else
bool IsPermitted() { return false; }
#endif

int main() {
  const int32_t first = relax_rt2_request_tiles();
  CHECK_EQUAL(first != 0, IsPermitted());
  CHECK_EQUAL(relax_rt2_request_tiles(), first);  // asking again changes nothing
}
