"""``IRModule``, contexts, constants, traversal, use-def chains, and guards of MLIR's parser."""
