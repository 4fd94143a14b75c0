"""Networks in files: the model, its inputs, and the outputs to expect."""

from pathlib import Path

import numpy as np

from benchmarks.rivals.rival import Case

__all__ = ["read_case", "save_case", "write_case"]


def write_case(name: str, folder: Path) -> tuple[Case, int]:
    """A network as a file, with its inputs, what it computes, and its operations."""
    from benchmarks.flops import count_flops
    from benchmarks.networks import network
    from benchmarks.rivals.onnxruntime import reference_outputs

    entry = network(name).entry
    model = entry.build()
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    flops = count_flops(model)
    inputs = entry.inputs(seed=0)
    return Case(path, inputs, reference_outputs(path, inputs)), flops


def save_case(name: str, folder: str) -> None:
    """Write a network with its arrays; also compiled, as ``model.rxm``."""
    import relax_mlir

    case, _ = write_case(name, Path(folder))
    inputs = dict(case.inputs)
    np.savez(Path(folder) / "inputs.npz", allow_pickle=False, **inputs)
    np.savez(Path(folder) / "outputs.npz", *case.outputs)
    relax_mlir.compile(case.model, cache=False).save(case.model.with_suffix(".rxm"))


def read_case(folder: str, model: str = "model.onnx") -> Case:
    """What :func:`save_case` wrote; nothing but numpy is needed for it.

    Args:
        folder: where.
        model: the file to run, ``model.onnx`` or ``model.rxm``.
    """
    inputs = dict(np.load(Path(folder) / "inputs.npz"))
    outputs = list(np.load(Path(folder) / "outputs.npz").values())
    return Case(Path(folder) / model, inputs, outputs)
