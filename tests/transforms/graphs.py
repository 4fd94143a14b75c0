"""Small graphs for the tests of passes."""

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Call, Expr, Op, Tuple, Var
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.relax.block_builder import BlockBuilder

__all__ = ["op", "program", "tensor"]


def op(name: str, *args: object, **attrs: object) -> Call:
    """A call of an operator."""
    return Call(Op.of(f"relax.{name}"), args, attrs)


def tensor(*shape: object, dtype: str = "float32") -> TensorStructInfo:
    """What is known of a tensor."""
    return TensorStructInfo(shape, dtype)


def program(params: list[Var], *values: Expr, **attrs: object) -> IRModule:
    """A module with one function, whose dataflow block gives ``values``."""
    builder = BlockBuilder()
    with builder.function("main", params, attrs=attrs):
        with builder.dataflow():
            outputs = [builder.emit_output(value) for value in values]
        builder.emit_func_output(outputs[0] if len(outputs) == 1 else Tuple(outputs))
    return builder.get()
