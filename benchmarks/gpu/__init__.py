"""GPU benchmarks against PyTorch on the same device.

``python -m benchmarks.gpu FOLDER`` cross-compiles all cases on any machine; ``python
benchmarks/gpu/measure.py FOLDER`` measures them on a machine with a GPU, PyTorch and onnx. It
does not need the compiler: the compiled files contain the runtime.
"""
