"""Operators of one's own: a Python function, and all that is known of it, in one place."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func

from relax_mlir import compiler
from relax_mlir.dialects import tensors
from relax_mlir.dialects.dtypes import from_numpy
from relax_mlir.dialects.hooks import OnnxNode, onnx_rule
from relax_mlir.dialects.relax.core import CallDpsPackedOp, CallTirOp, TupleGetItemOp
from relax_mlir.errors import MismatchError, RelaxError
from relax_mlir.frontends.onnx.node_form import check_form
from relax_mlir.module import IRModule
from relax_mlir.objects.expr import Var
from relax_mlir.objects.sizes import Symbols
from relax_mlir.objects.struct_info import TensorStructInfo
from relax_mlir.pipeline import Pipeline
from relax_mlir.relax.block_builder import BlockBuilder
from relax_mlir.runtime.registry import register_func
from relax_mlir.traversal import own_operations

__all__ = ["TensorType", "UserOperator", "op"]

_numbers = count()


@dataclass(frozen=True)
class TensorType:
    """What is known of a tensor before the model runs.

    Attributes:
        shape: sizes, which may be symbolic.
        dtype: the name of the element type.
    """

    shape: tuple[Any, ...]
    dtype: str


@dataclass(frozen=True)
class UserOperator:
    """An operator that a program defines; called, it is the function that defines it.

    Attributes:
        name: in ONNX, ``domain::Name``.
        function: from tensor expressions, or arrays if it is foreign, to one or several.
        shape: from :class:`TensorType` of the inputs to those of the results, or None.
        reference: the definition of what is right, from arrays to one or several.
        foreign: whether the function is called as it is, with arrays.
    """

    name: str
    function: Callable[..., Any]
    shape: Callable[..., Any] | None
    reference: Callable[..., Any] | None
    foreign: bool

    def __call__(self, *args: Any, **attrs: Any) -> Any:
        """What the function makes of these arguments."""
        return self.function(*args, **attrs)

    def check(self, *inputs: np.ndarray, tolerance: float = 1e-5, **attrs: Any) -> None:
        """Compile the operator alone, and compare with its reference.

        Args:
            *inputs: what it is run on.
            tolerance: of floats, relative to the largest of the reference.
            **attrs: attributes of the node.

        Raises:
            ValueError: there is no reference.
            AssertionError: the results differ.
        """
        if self.reference is None:
            raise ValueError(f"`{self.name}` has no reference to compare with")
        module = self._alone(inputs, attrs)
        wanted = self.reference(*inputs, **attrs)
        wanted = wanted if isinstance(wanted, (list, tuple)) else [wanted]
        made = compiler.compile(module)(*inputs)
        for number, (mine, right) in enumerate(zip(made, wanted, strict=True)):
            _compare(
                f"{self.name}: result {number}", mine, np.asarray(right), tolerance
            )

    def _alone(
        self, inputs: Sequence[np.ndarray], attrs: Mapping[str, Any]
    ) -> IRModule:
        module = IRModule.empty()
        with module.context, ir.Location.unknown():
            types = [tensors.tensor_type(x.shape, from_numpy(x.dtype)) for x in inputs]
            with ir.InsertionPoint(module.mlir.body):
                main = func.FuncOp("main", ir.FunctionType.get(types, []))
            block = main.add_entry_block()
            with ir.InsertionPoint(block):
                results = self.emit(list(block.arguments), attrs)
                func.ReturnOp(results)
            type_ = ir.FunctionType.get(types, [value.type for value in results])
            main.attributes["function_type"] = ir.TypeAttr.get(type_)
        return module

    def emit(
        self, operands: Sequence[ir.Value], attrs: Mapping[str, Any]
    ) -> list[ir.Value]:
        """Write a call of the operator at the insertion point.

        Raises:
            ValueError: the operands do not fit.
        """
        types = self._stated(operands, attrs)
        if self.foreign:
            return self._call_foreign(operands, attrs, types or [])
        return self._call_program(operands, attrs, types)

    def _stated(
        self, operands: Sequence[ir.Value], attrs: Mapping[str, Any]
    ) -> list[ir.Type] | None:
        """What the shape rule says of the results, if there is one."""
        if self.shape is None:
            return None
        given = [
            TensorType(tensors.shape_of(x), tensors.dtype_of(x).name) for x in operands
        ]
        said = self.shape(*given, **attrs)
        said = [said] if isinstance(said, TensorType) else list(said)
        return [tensors.tensor_type(t.shape, _dtype(t.dtype)) for t in said]

    def _call_program(
        self,
        operands: Sequence[ir.Value],
        attrs: Mapping[str, Any],
        types: Sequence[ir.Type] | None,
    ) -> list[ir.Value]:
        source = self._program(operands, attrs)
        main = source.func_op("main")
        (call,) = (
            o for o in own_operations(main.entry_block) if isinstance(o, CallTirOp)
        )
        # That module belongs to another context, so what is read of it is made again.
        given = [
            (tensors.shape_of(value), tensors.dtype_of(value))
            for value in next(reversed(list(own_operations(main.entry_block)))).operands
        ]
        sizes = call.python_attrs()["sizes"]
        text = source.func_op(call.python_attrs()["callee"]).operation.get_asm()
        results = [tensors.tensor_type(*one) for one in given]
        if types is not None and types != results:
            raise ValueError(
                f"shape rule: expected {', '.join(map(str, types))}, got "
                f"{', '.join(map(str, results))} from the tensor expression"
            )
        made = CallTirOp(
            list(operands),
            callee=_added(text),
            sizes=tensors.shape_attr(sizes),
            results=_whole(results),
        ).result
        return _parts(made, results)

    def _program(
        self, operands: Sequence[ir.Value], attrs: Mapping[str, Any]
    ) -> IRModule:
        """A module whose ``main`` calls the tensor program on such operands."""
        symbols, builder = Symbols(), BlockBuilder()
        infos = [
            TensorStructInfo(
                symbols.terms(tensors.shape_of(x)), tensors.dtype_of(x).name
            )
            for x in operands
        ]
        params = [Var(f"x{number}", info) for number, info in enumerate(infos)]
        hint = self.name.rpartition("::")[2].lower()
        with builder.function("main", params):
            made = builder.emit_te(
                self.function, *params, primfunc_name_hint=hint, **attrs
            )
            builder.emit_func_output(made)
        module = builder.get()
        Pipeline.parse("relax-normalize").run(module)  # names the sizes that calls pass
        return module

    def _call_foreign(
        self,
        operands: Sequence[ir.Value],
        attrs: Mapping[str, Any],
        types: Sequence[ir.Type],
    ) -> list[ir.Value]:
        """Call a function that is registered for these attributes."""
        callee = f"relax_mlir.user.{self.name}.{next(_numbers)}"
        inputs = len(operands)

        def call(*args: Any) -> None:
            arrays = [np.from_dlpack(arg) for arg in args]
            made = self.function(*arrays[:inputs], **attrs)
            made = made if isinstance(made, (list, tuple)) else [made]
            for target, array in zip(arrays[inputs:], made, strict=True):
                _fill(self.name, target, np.asarray(array))

        register_func(callee, call, override=True)
        made = CallDpsPackedOp(
            list(operands), callee=ir.StringAttr.get(callee), results=_whole(types)
        ).result
        return _parts(made, types)


def _dtype(name: str) -> Any:  # Any: the element type
    return from_numpy(np.dtype(name))


def _whole(types: Sequence[ir.Type]) -> list[ir.Type]:
    """One type, or that of a tuple of several."""
    return list(types) if len(types) == 1 else [ir.TupleType.get_tuple(list(types))]


def _parts(made: ir.Value, types: Sequence[ir.Type]) -> list[ir.Value]:
    if len(types) == 1:
        return [made]
    return [TupleGetItemOp(made, index=number).result for number in range(len(types))]


def _fill(name: str, target: np.ndarray, array: np.ndarray) -> None:
    """Write a result where it belongs.

    Raises:
        ValueError: it has another shape or element type than the shape rule says.
    """
    if array.shape != target.shape or array.dtype != target.dtype:
        raise ValueError(
            f"`{name}`: expected {target.dtype}{list(target.shape)}, got "
            f"{array.dtype}{list(array.shape)}"
        )
    target[...] = array


def _added(text: str) -> str:
    """Add a program to the module of the insertion point; what it is called there."""
    owner: Any = ir.InsertionPoint.current.block.owner  # Any: a module in the end
    while owner.operation.parent is not None:
        owner = owner.operation.parent.opview
    module = ir.Module.parse(text)  # lives as long as what is in it is looked at
    (source,) = own_operations(module.body)
    name = ir.StringAttr(source.attributes["sym_name"]).value
    taken = {
        ir.StringAttr(o.attributes["sym_name"]).value
        for o in own_operations(owner.body)
    }
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}{number}"
    with ir.InsertionPoint(owner.body):
        copy = source.operation.clone()
    copy.attributes["sym_name"] = ir.StringAttr.get(free)
    return free


def _compare(where: str, mine: np.ndarray, right: np.ndarray, tolerance: float) -> None:
    if mine.shape != right.shape or mine.dtype != right.dtype:
        raise MismatchError(
            f"{where}: expected {right.dtype}{list(right.shape)}, got "
            f"{mine.dtype}{list(mine.shape)}"
        )
    scale = max(1.0, float(np.abs(right.astype(np.float64)).max(initial=0)))
    atol = tolerance * scale if right.dtype.kind not in "biu" else 0
    np.testing.assert_allclose(mine, right, rtol=0, atol=atol, err_msg=where)


def op(
    name: str,
    *,
    since: int = 1,
    shape: Callable[..., Any] | None = None,
    reference: Callable[..., Any] | None = None,
    foreign: bool = False,
) -> Callable[[Callable[..., Any]], UserOperator]:
    """Make an operator of a function; ONNX models that use it can be imported then.

    The function's positional parameters are the inputs, its keyword-only ones the
    attributes. It is written in tensor expressions (:mod:`relax_mlir.te`), and compiled,
    or it is foreign, and called with arrays when the model runs.

    Args:
        name: of the operator in ONNX, ``domain::Name``.
        since: the first opset of the domain that it is for.
        shape: from a :class:`TensorType` of every input, and the attributes, to that of
            the result or a list of several. A foreign function needs it; of tensor
            expressions it says what they have to give.
        reference: what is right, on arrays; :meth:`UserOperator.check` compares with it.
        foreign: whether the function is called as it is.

    Raises:
        ValueError: a foreign function without ``shape``, or the name is taken.
    """
    if foreign and shape is None:
        raise ValueError(
            f"`{name}`: expected `shape` with a foreign function, got none"
        )

    def define(function: Callable[..., Any]) -> UserOperator:
        made = UserOperator(name, function, shape, reference, foreign)
        parameters = inspect.signature(function).parameters.values()
        inputs = [p for p in parameters if p.kind is not p.KEYWORD_ONLY]
        names = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]

        def rule(node: OnnxNode) -> list[ir.Value]:
            check_form(node, len(inputs), *names)
            operands = [node.input(index) for index in range(len(inputs))]
            try:
                return made.emit(operands, node.attrs)
            except (RelaxError, TypeError) as error:
                raise ValueError(f"in its function: {error}") from error

        onnx_rule(name, since=since)(rule)
        return made

    return define
