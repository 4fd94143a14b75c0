"""Schedule rules: how the kernels of a class become loops on a machine."""
