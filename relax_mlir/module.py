"""The one handle that users hold: a module, its context, its constants."""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from mlir import ir
from mlir.dialects import func
from mlir.dialects.builtin import ModuleOp

from relax_mlir.constant_pool import load_pool, pool_path, save_beside
from relax_mlir.context import new_context, shared_context
from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import IRError
from relax_mlir.files import check_path_name, utf8_problem, whole_file
from relax_mlir.objects import names
from relax_mlir.objects.attributes import to_attribute
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.module_view import ModuleView
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.onnx_source import OnnxSource
from relax_mlir.parser_guards import MAX_NESTING, check_text
from relax_mlir.traversal import own_operations

__all__ = ["MAX_NESTING", "IRModule"]

# The stubs do not know the exception.
MLIRError: type[Exception] = vars(ir)["MLIRError"]
_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)')


class IRModule(ModuleView):
    """An MLIR module at any level, with the arrays that its constants name.

    As a table of functions (``mod["main"]``, ``mod.functions``) it gives Python objects
    that are views of the functions in it; ``IRModule({"main": function})`` makes one.

    Attributes:
        mlir: the module itself, as an operation. It must outlive the handles to what is
            inside it, which in LLVM 22 do not keep it alive; those that :meth:`func_ops`
            gives do.
        constants: array per key; shared between clones, never written to in place.
        source: of an ONNX model, for calls whose sizes broadcast otherwise than its
            types say; None where there are no such calls, and of other modules.
        verified: what checks found to be right, by all that they looked at, and what
            they learned from it; shared between clones.
    """

    def __init__(
        self,
        mlir: ModuleOp | Mapping[Any, Any] | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.constants: dict[str, np.ndarray] = dict(constants or {})
        self.verified: dict[object, object] = {}
        self.source: OnnxSource | None = None
        self._scopes: dict[str, FunctionScope] = {}
        if isinstance(mlir, ModuleOp):
            self.mlir: ModuleOp = mlir
            return
        with shared_context(), ir.Location.unknown():
            self.mlir = ModuleOp()
        self.update(mlir or {})
        if attrs:
            with self.context:
                self.mlir.operation.attributes[names.ATTRS] = to_attribute(attrs)

    @property
    def context(self) -> ir.Context:
        """The MLIR context that everything in the module belongs to."""
        return self.mlir.context

    @staticmethod
    def empty(context: ir.Context | None = None) -> "IRModule":
        """A module without functions.

        Args:
            context: what it will belong to; a context of its own by default.
        """
        with context or new_context(), ir.Location.unknown():
            return IRModule(ModuleOp())

    @staticmethod
    def shared() -> "IRModule":
        """A module without functions, in the context that all front ends share."""
        return IRModule({})

    @staticmethod
    def from_expr(expr: BaseFunc, functions: Any = None) -> "IRModule":
        """A module whose ``main`` is a function, beside other functions by name."""
        name = expr.attrs.get("global_symbol", "main")
        return IRModule({**(functions or {}), name: expr})

    def same_as(self, other: object) -> bool:
        """Whether it is the same object."""
        return self is other

    def alone(self) -> "IRModule":
        """A module without functions, in the context of this one."""
        with self.context, ir.Location.unknown():
            return IRModule(ModuleOp())

    @staticmethod
    def parse(
        text: str,
        constants: Mapping[str, np.ndarray] | None = None,
        *,
        context: ir.Context | None = None,
    ) -> "IRModule":
        """Read a module from its text.

        Args:
            context: what it will belong to; a context of its own by default.

        Raises:
            IRError: the text is not valid MLIR, or the parser would end the process.
        """
        check_text(text)
        with context or new_context():
            try:
                return IRModule(_copy(ir.Module.parse(text).operation), constants)
            except MLIRError as error:
                raise IRError(
                    f"malformed module: {_first_diagnostic(error)}"
                ) from error

    @staticmethod
    def restore(text: str, constants: Mapping[str, np.ndarray]) -> "IRModule":
        """Read a module from its text, into the context that all front ends share.

        Raises:
            IRError: the text is not valid MLIR, or is nested too deeply to parse.
        """
        return IRModule.parse(text, constants).in_shared_context()

    def in_shared_context(self) -> "IRModule":
        """A copy in the context that all front ends share."""
        module = IRModule(self.functions, attrs=self.attrs)
        for name, infos in self.global_infos.items():
            module.update_global_info(name, infos)
        return module

    def __reduce__(self) -> tuple[Any, ...]:
        return IRModule.restore, (str(self.mlir), self.named_constants())

    def __deepcopy__(self, memo: object) -> "IRModule":
        return self.clone()

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "IRModule":
        """Read what :meth:`save` wrote: ``x.mlir``, and ``x.safetensors`` if it is needed.

        Raises:
            IRError: the text is not valid MLIR, or the arrays are not there, damaged,
                or not those that it names.
            OSError: the text cannot be read.
        """
        check_path_name(path)
        try:
            module = IRModule.parse(Path(path).read_text(encoding="utf-8"))
        except UnicodeDecodeError as error:
            raise IRError(f"{path}: {utf8_problem(error)}") from error
        except IRError as error:
            message = _PLACE.sub(r"line \1, column \2", str(error))
            raise IRError(f"{path}: {message}") from error
        if module.constant_types():
            pool = pool_path(path)
            module.adopt(load_pool(pool), str(pool))
        return module

    def save(self, path: str | os.PathLike[str], *, locations: bool = False) -> None:
        """Write the text, and beside it the arrays that it names, each whole.

        Args:
            path: of the text; the arrays go to the same name with ``.safetensors``.
            locations: whether the text tells where operations come from.

        Raises:
            OSError: a file cannot be written.
        """
        self.save_constants(path)
        text = str(self.mlir.operation.get_asm(enable_debug_info=bool(locations)))
        with whole_file(path) as file:
            file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")

    def save_constants(self, path: str | os.PathLike[str]) -> None:
        """Write the arrays that the module names, for its text in the file ``path``."""
        save_beside(path, self.named_constants())

    def named_constants(self) -> dict[str, np.ndarray]:
        """The arrays that the module names, as far as it has them."""
        keys = self.constant_types()
        return {k: self.constants[k] for k in keys if k in self.constants}

    def constant_types(self) -> dict[str, ir.RankedTensorType | None]:
        """Keys that the module names, with their types; None past the level ``tir``."""
        found: dict[str, ir.RankedTensorType | None] = {}
        found.update(dict.fromkeys(self._signature_keys()))
        for function in self.func_ops():
            if names.ATTRS in function.attributes:
                found.update(dict.fromkeys(self.keys_of(function.operation)))

        def visit(op: ir.Operation) -> ir.WalkResult:
            view = op.opview
            if isinstance(view, ConstantOp) and view.key is not None:
                found[view.key] = view.y.type
            return ir.WalkResult.ADVANCE

        self.mlir.operation.walk(visit)
        return found

    def _signature_keys(self) -> list[str]:
        """The constants that compiled code takes; none before the level ``planned``."""
        attributes = self.mlir.operation.attributes
        if "relax.signature" not in attributes:
            return []
        try:
            return list(json.loads(attributes["relax.signature"].value)["constants"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise IRError(f"attribute `relax.signature` is damaged: {error}") from error

    def adopt(self, constants: Mapping[str, np.ndarray], where: str) -> None:
        """Take the arrays that the module names out of ``constants``.

        Args:
            where: what errors call their origin.

        Raises:
            IRError: one is not there, or does not fit its type.
        """
        for key, type_ in self.constant_types().items():
            if key not in constants:
                raise IRError(
                    f"{where}: no constant `{key}`, which the module names. Is it the "
                    "file of another module?"
                )
            with self.context:
                _check_fits(key, constants[key], type_, where)
            self.constants[key] = constants[key]

    def clone(self) -> "IRModule":
        """A copy in the same context; the arrays are shared."""
        copy = IRModule(_copy(self.mlir.operation), self.constants)
        copy.verified, copy.source = self.verified, self.source
        return copy

    def become(self, other: "IRModule") -> None:
        """Hold what ``other`` holds, which is then no longer to be changed."""
        self.mlir, self.constants = other.mlir, other.constants
        self.verified, self._scopes = other.verified, other._scopes
        self.source = other.source

    def func_ops(self) -> list[func.FuncOp]:
        """All functions, in order."""
        found = [
            op for op in own_operations(self.mlir.body) if isinstance(op, func.FuncOp)
        ]
        for function in found:
            function.__dict__["module"] = self.mlir
        return found

    def func_op(self, name: str) -> func.FuncOp:
        """The function called ``name``.

        Raises:
            IRError: there is none.
        """
        for function in own_operations(self.mlir.body):
            if isinstance(function, func.FuncOp) and function.name.value == name:
                function.__dict__["module"] = self.mlir
                return function
        raise IRError(f"module has no function `{name}`")

    def verify(self) -> None:
        """Check what MLIR checks.

        Raises:
            IRError: the module breaks a rule of a dialect.
        """
        try:
            self.mlir.operation.verify()
        except MLIRError as error:
            raise IRError(f"invalid module: {_first_diagnostic(error)}") from error

    def __str__(self) -> str:
        return str(self.mlir)


def _copy(module: ir.Operation) -> ModuleOp:
    copy: Any = module.clone()  # Any: the stubs do not know that it is a ModuleOp
    return copy


def _check_fits(
    key: str, array: np.ndarray, type_: ir.RankedTensorType | None, where: str
) -> None:
    if type_ is None:
        return
    shape, dtype = tensors.shape_of(type_), tensors.dtype_of(type_)
    if array.shape != shape or array.dtype != dtype.numpy:
        raise IRError(
            f"{where}: constant `{key}`: expected {dtype.name}{list(shape)}, got "
            f"{array.dtype.name}{list(array.shape)}. Is it the file of another module?"
        )


def _first_diagnostic(error: Any) -> str:
    parts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
    return "; ".join(parts) or str(error)
