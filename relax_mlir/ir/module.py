"""``IRModule``: a module, its MLIR context and its constants."""

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

from relax_mlir.dialects import tensors
from relax_mlir.dialects.relax.core import ConstantOp
from relax_mlir.errors import IRError
from relax_mlir.ir import function_attributes
from relax_mlir.ir.constant_pool import load_pool, pool_path, save_beside
from relax_mlir.ir.context import new_context, shared_context
from relax_mlir.ir.parser_guards import MAX_NESTING, check_text
from relax_mlir.ir.traversal import own_operations
from relax_mlir.objects.function import BaseFunc
from relax_mlir.objects.mlir_attributes import to_attribute
from relax_mlir.objects.module_view import ModuleView
from relax_mlir.objects.scope import FunctionScope
from relax_mlir.runtime.derived_constants import Derivation
from relax_mlir.runtime.onnx_source import OnnxSource
from relax_mlir.support.files import atomic_file, check_path_name, utf8_problem

__all__ = ["MAX_NESTING", "IRModule"]

# The stubs lack this exception.
MLIRError: type[Exception] = vars(ir)["MLIRError"]
_PLACE = re.compile(r'loc\("-":(\d+):(\d+)\)')


class IRModule(ModuleView):
    """An MLIR module at any level, with the arrays of its constants.

    As a mapping of functions (``mod["main"]``, ``mod.functions``) it returns Python views of
    its functions; ``IRModule({"main": function})`` creates a module.

    Attributes:
        mlir: the module operation. It must outlive handles to operations inside it, which
            in LLVM 22 do not keep it alive; those from :meth:`func_ops` do.
        constants: arrays by key; shared between clones, never modified in place.
        derivations: of constants that passes computed from others, by key.
        source: the ONNX model, for calls whose shapes broadcast differently from its
            types; None if there are none, and for other modules.
        verified: cache of verified facts, by everything that the check read, with
            what it derived; shared between clones.
    """

    def __init__(
        self,
        mlir: ModuleOp | Mapping[Any, Any] | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> None:
        self.constants: dict[str, np.ndarray] = dict(constants or {})
        self.derivations: dict[str, Derivation] = {}
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
                self.mlir.operation.attributes[function_attributes.ATTRS] = (
                    to_attribute(attrs)
                )

    @property
    def context(self) -> ir.Context:
        """The MLIR context of the module."""
        return self.mlir.context

    @staticmethod
    def empty(context: ir.Context | None = None) -> "IRModule":
        """A module without functions.

        Args:
            context: its context; a new one by default.
        """
        with context or new_context(), ir.Location.unknown():
            return IRModule(ModuleOp())

    @staticmethod
    def shared() -> "IRModule":
        """A module without functions, in the shared context of all front ends."""
        return IRModule({})

    @staticmethod
    def from_expr(expr: BaseFunc, functions: Any = None) -> "IRModule":
        """A module with a function as ``main``, and other functions by name."""
        name = expr.attrs.get("global_symbol", "main")
        return IRModule({**(functions or {}), name: expr})

    def same_as(self, other: object) -> bool:
        """Object identity."""
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
        """Parses a module.

        Args:
            context: its context; a new one by default.

        Raises:
            IRError: the text is not valid MLIR, or would crash the parser.
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
        """Parses a module into the shared context of all front ends.

        Raises:
            IRError: the text is not valid MLIR, or is nested too deeply to parse.
        """
        return IRModule.parse(text, constants).in_shared_context()

    def in_shared_context(self) -> "IRModule":
        """A copy in the shared context of all front ends."""
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
        """Loads what :meth:`save` wrote: ``x.mlir``, and ``x.safetensors`` if needed.

        Raises:
            IRError: the text is not valid MLIR, or the arrays are missing, damaged, or of
                other names or types.
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
        """Saves the text, and the arrays that it refers to next to it, each file atomically.

        Args:
            path: of the text; the arrays go to the same name with ``.safetensors``.
            locations: whether the text has source locations.

        Raises:
            OSError: a file cannot be written.
        """
        self.save_constants(path)
        text = str(self.mlir.operation.get_asm(enable_debug_info=bool(locations)))
        with atomic_file(path) as file:
            file.write_text(text.rstrip("\n") + "\n", encoding="utf-8")

    def save_constants(self, path: str | os.PathLike[str]) -> None:
        """Saves the arrays that the module refers to, for its text in the file ``path``."""
        save_beside(path, self.named_constants())

    def named_constants(self) -> dict[str, np.ndarray]:
        """The arrays that the module refers to, without missing ones."""
        keys = self.constant_types()
        return {k: self.constants[k] for k in keys if k in self.constants}

    def constant_types(self) -> dict[str, ir.RankedTensorType | None]:
        """The keys that the module refers to, with their types; None below the level ``tir``."""
        found: dict[str, ir.RankedTensorType | None] = {}
        found.update(dict.fromkeys(self._signature_keys()))
        for function in self.func_ops():
            if function_attributes.ATTRS in function.attributes:
                found.update(dict.fromkeys(self.keys_of(function.operation)))

        def visit(op: ir.Operation) -> ir.WalkResult:
            view = op.opview
            if isinstance(view, ConstantOp) and view.key is not None:
                found[view.key] = view.y.type
            return ir.WalkResult.ADVANCE

        self.mlir.operation.walk(visit)
        return found

    def _signature_keys(self) -> list[str]:
        """The constants of compiled code; none before the level ``planned``."""
        attributes = self.mlir.operation.attributes
        if "relax.signature" not in attributes:
            return []
        try:
            return list(json.loads(attributes["relax.signature"].value)["constants"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise IRError(f"attribute `relax.signature` is damaged: {error}") from error

    def adopt(self, constants: Mapping[str, np.ndarray], where: str) -> None:
        """Adds the arrays that the module refers to from ``constants``.

        Args:
            where: their origin, for error messages.

        Raises:
            IRError: an array is missing, or does not fit its type.
        """
        for key, type_ in self.constant_types().items():
            if key not in constants:
                raise IRError(
                    f"{where}: no constant `{key}`, which the module refers to. Hint: is "
                    "it the file of another module?"
                )
            with self.context:
                _check_fits(key, constants[key], type_, where)
            self.constants[key] = constants[key]

    def clone(self) -> "IRModule":
        """A copy in the same context; the arrays are shared."""
        copy = IRModule(_copy(self.mlir.operation), self.constants)
        copy.derivations = dict(self.derivations)
        copy.verified, copy.source = self.verified, self.source
        return copy

    def replace_contents(self, other: "IRModule") -> None:
        """Takes over the contents of ``other``, which must not be changed afterwards."""
        self.mlir, self.constants = other.mlir, other.constants
        self.derivations = other.derivations
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
        """Runs MLIR's verifier.

        Raises:
            IRError: the module is invalid.
        """
        try:
            self.mlir.operation.verify()
        except MLIRError as error:
            raise IRError(f"invalid module: {_first_diagnostic(error)}") from error

    def __str__(self) -> str:
        return str(self.mlir)


def _copy(module: ir.Operation) -> ModuleOp:
    copy: Any = module.clone()  # Any: the stubs lack that it is a ModuleOp
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
            f"{array.dtype.name}{list(array.shape)}. Hint: is it the file of another "
            "module?"
        )


def _first_diagnostic(error: Any) -> str:
    parts = [f"{d.location}: {d.message}" for d in error.error_diagnostics]
    return "; ".join(parts) or str(error)
