"""ONNX's own test suite, run by our backend."""
