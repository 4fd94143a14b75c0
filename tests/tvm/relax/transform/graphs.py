"""Small graphs for the tests of passes."""

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.block_builder import BlockBuilder
from relax_mlir.objects.expr import Call, Expr, Op, Tuple, Var
from relax_mlir.objects.expr.struct_info import TensorStructInfo

__all__ = ["op", "program", "tensor"]


def op(name: str, *args: object, **attrs: object) -> Call:
    """A call of an operator."""
    return Call(Op.of(f"relax.{name}"), args, attrs)


def tensor(*shape: object, dtype: str = "float32") -> TensorStructInfo:
    """The struct info of a tensor."""
    return TensorStructInfo(shape, dtype)


def program(params: list[Var], *values: Expr, **attrs: object) -> IRModule:
    """A module with one function, whose dataflow block outputs ``values``."""
    builder = BlockBuilder()
    with builder.function("main", params, attrs=attrs):
        with builder.dataflow():
            outputs = [builder.emit_output(value) for value in values]
        builder.emit_func_output(outputs[0] if len(outputs) == 1 else Tuple(outputs))
    return builder.get()
