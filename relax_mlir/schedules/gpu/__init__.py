"""Schedule rules for NVIDIA GPUs: kernels as grids of blocks of threads."""
