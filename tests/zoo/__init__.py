"""Trained networks out of packages: agreement with onnxruntime, and known answers."""
