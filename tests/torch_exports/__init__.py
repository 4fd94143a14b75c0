"""Networks of torch in small, through its ONNX exporters."""
