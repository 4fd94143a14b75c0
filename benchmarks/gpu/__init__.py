"""What models reach on an NVIDIA GPU, beside PyTorch on the same device.

``python -m benchmarks.gpu FOLDER`` compiles all cases, wherever there is a compiler; ``python
benchmarks/gpu/measure.py FOLDER`` measures them where there are a GPU, PyTorch and onnx, and
no compiler of ours: the files hold the runtime.
"""
