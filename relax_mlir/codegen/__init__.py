"""Code generation by LLVM's C API, and linking of object code."""
