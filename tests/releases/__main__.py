"""Writes files of this version: ``python -m tests.releases``, before a release.

The model is a convolution and a product; the code is for x86-64-v2, which most machines run.
"""

import json
import shutil
from pathlib import Path

import numpy as np
import onnx.parser

import relax_mlir
from relax_mlir.compiler.tuning.database import TuningDatabase
from relax_mlir.runtime.model_file import sign
from relax_mlir.runtime.signing import generate_keys

__all__ = ["write"]

_TARGET = "cpu:x86-64-v2"
_TEXT = """<ir_version: 8, opset_import: ["" : 17]>
small (float[n, 3, 8, 8] x) => (float[n, 10] y)
<float[4, 3, 3, 3] w, float[144, 10] v> {
    a = Conv (x, w)
    b = Relu (a)
    c = Flatten (b)
    y = MatMul (c, v)
}"""


def write(folder: Path) -> None:
    """Write a model in each form, its inputs and outputs, and a tuning database."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    rng = np.random.default_rng(0)
    model = onnx.parser.parse_model(_TEXT)
    for name, shape in (("w", (4, 3, 3, 3)), ("v", (144, 10))):
        array = (rng.integers(-8, 8, shape) / 8).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    x = (rng.integers(-8, 8, (2, 3, 8, 8)) / 8).astype(np.float32)
    data = model.SerializeToString()
    compiled = relax_mlir.compile(data, target=_TARGET, cache=False)
    (y,) = relax_mlir.compile(data, cache=False)(x)
    np.savez(folder / "data.npz", x=x, y=y)
    compiled.save(folder / "small.rxm")
    key = folder / "key.pem"
    generate_keys(key)
    sign(folder / "small.rxm", key, folder / "signed.rxm")
    key.unlink()
    relax_mlir.export(data, folder / "small.so", targets=[_TARGET])
    (folder / "small.onnx").write_bytes(data)
    relax_mlir.tune(data, database=folder / "tuning.json", trials=4, sizes={"n": 2})
    records = TuningDatabase.read(folder / "tuning.json").records
    (folder / "facts.json").write_text(json.dumps({"records": len(records)}) + "\n")


if __name__ == "__main__":
    write(Path(__file__).with_name(relax_mlir.__version__))
