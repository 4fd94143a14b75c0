"""Schedule rules for NVIDIA GPUs: kernels as grids of thread blocks."""
