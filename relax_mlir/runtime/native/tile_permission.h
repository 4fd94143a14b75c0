// The registers of AMX, for code that is written by hand.
#ifndef RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_
#define RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_

namespace relax_mlir {

// Gives up what the tile registers of AMX hold, if this process may use them: compiled code does
// so where it ends, and not where it is left.
void ReleaseTiles();

}  // namespace relax_mlir

#endif  // RELAX_MLIR_RUNTIME_NATIVE_TILE_PERMISSION_H_
