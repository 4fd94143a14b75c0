"""Code generation by LLVM's C API, and JIT linking of object code."""
