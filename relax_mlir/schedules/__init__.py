"""Schedule rules: matching of kernels, and emission of their loops for CPUs and GPUs."""
