# pyright: strict
"""What a user of the package writes, for type checkers; it is not run.

``make lint`` checks it with pyright; ``mypy --strict`` finds nothing, either.
"""

import numpy as np

import relax_mlir
import relax_mlir.dialects.tir
from relax_mlir import onnxruntime as ort

model = relax_mlir.compile("model.onnx", threads=2)
x = np.zeros((1, 3), np.float32)
(y,) = model(x)
model.save("model.rxm")
loaded = relax_mlir.load("model.rxm")
out = loaded(x)
profile = model.profile(x)

module = relax_mlir.import_onnx("model.onnx", shapes={"x": [1, 3]})
lowered = relax_mlir.lower(module, to="tir")
executable = relax_mlir.compile(module, target="cpu", precision="f32")
result = executable(x=x)
shape = executable.signature.inputs[0].shape
print(shape, relax_mlir.explain("model.onnx"), relax_mlir.__version__)
with open("model.rxm", "wb") as file:
    executable.save(file)
relax_mlir.export("model.onnx", "model.so", targets=["cpu"])
try:
    relax_mlir.load(b"")
except relax_mlir.RelaxError as error:
    print(error)

session = ort.InferenceSession("model.onnx", providers=["CPUExecutionProvider"])
outputs = session.run(None, {session.get_inputs()[0].name: x})


@relax_mlir.op("com.example::Damp")
def damp(
    b: relax_mlir.dialects.tir.Builder,
    x: relax_mlir.dialects.tir.Buffer,
    *,
    rate: float,
) -> relax_mlir.dialects.tir.Buffer:
    return x
