"""Import and compile times by number of nodes: ``python -m benchmarks.compile_time``.

Measures one import, and one compilation without the cache plus the first call, which
compiles stages, for several graph shapes. The last column shows superlinear growth.
"""

import argparse
import time
from collections.abc import Callable, Mapping

import numpy as np
import onnx
from onnx import TensorProto, helper
from rich.console import Console
from rich.table import Table

import relax_mlir

__all__ = ["KINDS"]

_FLOAT, _INT64 = TensorProto.FLOAT, TensorProto.INT64


def chain(count: int) -> onnx.ModelProto:
    """A chain of elementwise nodes, with a symbolic size."""
    operators = ("Relu", "Neg", "Sigmoid", "Abs")
    nodes = [
        helper.make_node(operators[n % 4], [f"v{n}"], [f"v{n + 1}"])
        for n in range(count)
    ]
    return _model(nodes, ["v0"], f"v{count}")


def branches(count: int) -> onnx.ModelProto:
    """A wide graph: sums of each value and one far before it."""
    nodes = [
        helper.make_node("Add", [f"v{n // 2}", f"v{n}"], [f"v{n + 1}"])
        for n in range(count)
    ]
    return _model(nodes, ["v0"], f"v{count}")


def layers(count: int) -> onnx.ModelProto:
    """MatMul, Add and Relu layers with separate weights, and static shapes."""
    nodes, weights = [], []
    for n in range(count // 3):
        weights += [_weight(f"w{n}", [8, 8]), _weight(f"b{n}", [8])]
        nodes += [
            helper.make_node("MatMul", [f"v{n}", f"w{n}"], [f"m{n}"]),
            helper.make_node("Add", [f"m{n}", f"b{n}"], [f"a{n}"]),
            helper.make_node("Relu", [f"a{n}"], [f"v{n + 1}"]),
        ]
    return _model(nodes, ["v0"], f"v{count // 3}", [4, 8], weights)


def shifts(count: int) -> onnx.ModelProto:
    """A chain of additions of scalar weights."""
    weights = [_weight(f"w{n}", [1]) for n in range(count)]
    nodes = [
        helper.make_node("Add", [f"v{n}", f"w{n}"], [f"v{n + 1}"]) for n in range(count)
    ]
    return _model(nodes, ["v0"], f"v{count}", weights=weights)


def shapes(count: int) -> onnx.ModelProto:
    """Repeated Shape, Gather, Concat, Reshape chains."""
    last = helper.make_node("Constant", [], ["last"], value_ints=[-1])
    zero = helper.make_node("Constant", [], ["zero"], value_ints=[0])
    nodes = [last, zero]
    for n in range(count // 5):
        nodes += [
            helper.make_node("Shape", [f"v{n}"], [f"s{n}"]),
            helper.make_node("Gather", [f"s{n}", "zero"], [f"g{n}"]),
            helper.make_node("Concat", [f"g{n}", "last"], [f"c{n}"], axis=0),
            helper.make_node("Reshape", [f"v{n}", f"c{n}"], [f"r{n}"]),
            helper.make_node("Neg", [f"r{n}"], [f"v{n + 1}"]),
        ]
    return _model(nodes, ["v0"], f"v{count // 5}")


def functions(count: int) -> onnx.ModelProto:
    """Calls of a model function."""
    function = onnx.FunctionProto(
        name="step", domain="local", input=["x"], output=["y"]
    )
    function.opset_import.add(domain="", version=21)
    function.node.append(helper.make_node("Neg", ["x"], ["t"]))
    function.node.append(helper.make_node("Relu", ["t"], ["y"]))
    nodes = [
        helper.make_node("step", [f"v{n}"], [f"v{n + 1}"], domain="local")
        for n in range(count // 2)
    ]
    model = _model(nodes, ["v0"], f"v{count // 2}")
    model.functions.append(function)
    return model


def stages(count: int) -> onnx.ModelProto:
    """A chain after a ReduceSum whose axes are an input: one stage of ``count`` nodes."""
    model = chain(count - 1)
    model.graph.input.append(helper.make_tensor_value_info("axes", _INT64, [1]))
    node = helper.make_node("ReduceSum", ["x", "axes"], ["v0"])
    model.graph.input[0].name = "x"
    model.graph.node.insert(0, node)
    return model


KINDS: Mapping[str, Callable[[int], onnx.ModelProto]] = {
    "chain": chain,
    "branches": branches,
    "layers": layers,
    "shifts": shifts,
    "shapes": shapes,
    "functions": functions,
    "stages": stages,
}


def _weight(name: str, dims: list[int]) -> onnx.TensorProto:
    numbers = [(7 * n) % 5 / 5 - 0.4 for n in range(dims[0] * (dims[1:] or [1])[0])]
    return helper.make_tensor(name, _FLOAT, dims, numbers)


def _model(
    nodes: list[onnx.NodeProto],
    inputs: list[str],
    output: str,
    dims: list[int | str] | None = None,
    weights: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    sizes = ["n", 8] if dims is None else dims
    given = [helper.make_tensor_value_info(name, _FLOAT, sizes) for name in inputs]
    graph = helper.make_graph(
        nodes, "g", given, [onnx.ValueInfoProto(name=output)], weights or []
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", default=list(KINDS), help="graph shapes (default: all)"
    )
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 1000, 10_000])
    options = parser.parse_args()
    relax_mlir.compile(chain(4), cache=False)  # warm-up
    table = Table("model", "nodes", "import s", "compile s", "ms/node")
    for kind in options.kinds:
        for count in options.nodes:
            imported, compiled = _seconds(KINDS[kind](count))
            each = 1e3 * (imported + compiled) / count
            table.add_row(
                kind, str(count), f"{imported:.2f}", f"{compiled:.2f}", f"{each:.2f}"
            )
    Console().print(table)


def _seconds(model: onnx.ModelProto) -> tuple[float, float]:
    """Seconds to import and to compile a model."""
    begin = time.perf_counter()
    module = relax_mlir.import_onnx(model)
    middle = time.perf_counter()
    relax_mlir.compile(module, cache=False)(*map(_ones, model.graph.input))
    return middle - begin, time.perf_counter() - middle


def _ones(value: onnx.ValueInfoProto) -> np.ndarray:
    """An input of ones, with 4 for symbolic sizes."""
    tensor = value.type.tensor_type
    dims = [dim.dim_value or 4 for dim in tensor.shape.dim]
    return np.ones(dims, helper.tensor_dtype_to_np_dtype(tensor.elem_type))


if __name__ == "__main__":
    main()
