"""``IRModule``, MLIR contexts, constants, traversal, and guards in front of MLIR's parser."""
