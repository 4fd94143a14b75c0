// AMX tile registers, for hand-written code.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_
#define RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_

namespace relax_mlir {

// Releases the AMX tile registers, if this process may use them: compiled code does so when it
// returns, but not when it is aborted.
void ReleaseTiles();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_
