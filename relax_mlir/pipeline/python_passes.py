"""Passes defined by Python functions on modules, functions or dataflow blocks; sequences."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from relax_mlir.ir.module import IRModule
from relax_mlir.objects.expr import BindingBlock, DataflowBlock, DataflowVar, SeqExpr
from relax_mlir.objects.function import Function
from relax_mlir.pipeline import catalog
from relax_mlir.rewrite.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.rewrite.patterns import Pass

__all__ = [
    "DataflowBlockPass",
    "FunctionPass",
    "ModulePass",
    "PrintIRPass",
    "Sequential",
    "dataflowblock_pass",
    "function_pass",
    "module_pass",
]


class _PythonPass(Pass):
    """Base of passes defined by a Python function."""

    method: ClassVar[str]  # the name of the function in a decorated class
    _change: Callable[..., Any]
    _info: PassInfo

    def __init__(self, change: Callable[..., Any], info: PassInfo) -> None:
        values = {"_change": change, "_info": info}
        self.__dict__.update(values)  # passes are frozen

    @property
    def info(self) -> PassInfo:
        return self._info

    @property
    def pass_func(self) -> Callable[..., Any]:
        """The function of the pass."""
        return self._change

    def run(self, module: IRModule) -> None:
        module.replace_contents(self.transform(module.clone(), PassContext.current()))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name})"


class ModulePass(_PythonPass):
    """Module pass: a Python function from a module and a context to a module."""

    method = "transform_module"

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        changed = self._change(module, context)
        if not isinstance(changed, IRModule):
            raise TypeError(
                f"pass `{self.info.name}`: expected an IRModule as its result, got "
                f"{changed!r}"
            )
        return changed


class FunctionPass(_PythonPass):
    """Function pass: a Python function that transforms every Relax function."""

    method = "transform_function"

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        changed = IRModule(module.functions, attrs=module.attrs)
        for name, function in module.functions.items():
            if isinstance(function, Function):
                changed[name] = self._change(function, module, context)
        return changed


class DataflowBlockPass(_PythonPass):
    """Dataflow block pass: a Python function that transforms every dataflow block."""

    method = "transform_dataflowblock"

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        changed = IRModule(module.functions, attrs=module.attrs)
        for name, function in module.functions.items():
            if isinstance(function, Function):
                changed[name] = self._changed(function, module, context)
        return changed

    def _changed(
        self, function: Function, module: IRModule, context: PassContext
    ) -> Function:
        params, body = function.params, function.body
        blocks = [self._block(b, module, context) for b in body.blocks]
        return Function(
            params,
            SeqExpr(blocks, body.body),
            function.ret_struct_info,
            function.is_pure,
            function.attrs,
        )

    def _block(
        self, block: BindingBlock, module: IRModule, context: PassContext
    ) -> BindingBlock:
        if not isinstance(block, DataflowBlock):
            return block
        changed = self._change(block, module, context)
        before = _global_names(block)
        for name in _global_names(changed) - before:
            raise ValueError(
                f"pass `{self.info.name}`: dataflow block defines a new output `{name}`"
            )
        return changed


def _global_names(block: BindingBlock) -> set[str]:
    variables = (b.var for b in block.bindings)
    return {v.name_hint for v in variables if not isinstance(v, DataflowVar)}


def _decorator(
    kind: type[_PythonPass],
    function: Any,
    opt_level: int | None,
    name: str | None,
    required: Sequence[str] | None,
    traceable: bool,
) -> Any:
    if opt_level is None:
        raise ValueError("Please provide opt_level for the pass.")
    if required is not None and not isinstance(required, (list, tuple)):
        raise TypeError(f"`required`: expected a list of names, got {required!r}")

    def decorate(change: Any) -> Any:
        _check_is_callable(change)
        info = PassInfo(
            opt_level, name or _name_of(change), tuple(required or ()), traceable
        )
        make = _class_pass if inspect.isclass(change) else _function_pass
        found = make(kind, change, info)
        catalog.register_pass(info.name, found)
        return found

    return decorate if function is None else decorate(function)


def _name_of(change: Any) -> str:
    """The default name of a pass: that of its function or class."""
    return str(getattr(change, "__name__", type(change).__name__))


def _check_is_callable(value: object) -> None:
    if not callable(value):
        raise TypeError(f"expected a function or a class, got {value!r}")


def _function_pass(kind: type[_PythonPass], change: Any, info: PassInfo) -> _PythonPass:
    return kind(change, info)


def _class_pass(
    kind: type[_PythonPass], cls: type, info: PassInfo
) -> type[_PythonPass]:
    """A pass class, from a class with the transform method."""
    method = kind.method

    class ClassPass(kind):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            inner = cls(*args, **kwargs)
            super().__init__(getattr(inner, method), info)
            self.__dict__["_inner"] = inner

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.__dict__["_inner"], attribute)

    functools.update_wrapper(ClassPass.__init__, cls.__init__)
    ClassPass.__name__ = ClassPass.__qualname__ = cls.__name__
    ClassPass.__doc__, ClassPass.__module__ = cls.__doc__, cls.__module__
    return ClassPass


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: a pass, a pass class, or a decorator
    """Decorator that makes a pass from a function ``(module, context) -> module``.

    It also decorates a class with such a method ``transform_module``. Pipeline text can
    use the name of the pass.

    Raises:
        ValueError: ``opt_level`` is missing.
        TypeError: ``required`` is not a list.
    """
    return _decorator(ModulePass, pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: see module_pass
    """Decorator that makes a pass from a function ``(function, module, context) -> function``.

    It also decorates a class with such a method ``transform_function``.

    Raises:
        ValueError: ``opt_level`` is missing.
        TypeError: ``required`` is not a list.
    """
    return _decorator(FunctionPass, pass_func, opt_level, name, required, traceable)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: see module_pass
    """Decorator that makes a pass from a function ``(block, module, context) -> block``.

    It also decorates a class with such a method ``transform_dataflowblock``.

    Raises:
        ValueError: ``opt_level`` is missing.
        TypeError: ``required`` is not a list.
    """
    return _decorator(
        DataflowBlockPass, pass_func, opt_level, name, required, traceable
    )


class Sequential(_PythonPass):
    """A sequence of passes; those that the pass context disables are skipped.

    Args:
        passes: the passes.
        opt_level, name, required, traceable: the ``PassInfo`` of the sequence.

    Raises:
        TypeError: ``passes`` or ``required`` is not a list.
    """

    passes: tuple[AnyPass, ...]

    def __init__(
        self,
        passes: Sequence[AnyPass] | None = None,
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        if passes is not None and not isinstance(passes, (list, tuple)):
            raise TypeError("passes must be a list of Pass objects.")
        if required is not None and not isinstance(required, (list, tuple)):
            raise TypeError(f"`required`: expected a list of names, got {required!r}")
        listed = tuple(passes or ())
        for each in listed:
            if not callable(each):
                raise TypeError(f"passes must be a list of Pass objects, got {each!r}")
        info = PassInfo(opt_level, name, tuple(required or ()), traceable)
        super().__init__(self._run_all, info)
        self.__dict__["passes"] = listed

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.passes))}])"

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        return self._run_all(module, context)

    def _run_all(self, module: IRModule, context: PassContext) -> IRModule:
        for each in self.passes:
            if not context.is_enabled(each.info):
                continue
            for name in each.info.required:
                module = catalog.find_any_pass(name)(module)
            module = each(module)
        return module


class PrintIRPass(_PythonPass):
    """Prints the module; changes nothing."""

    header: str
    write: Callable[[str], object]

    def __init__(
        self, header: str = "", write: Callable[[str], object] = print
    ) -> None:
        super().__init__(self._print, PassInfo(0, "PrintIR"))
        self.__dict__.update(header=header, write=write)

    def _print(self, module: IRModule, context: PassContext) -> IRModule:
        self.write(f"PrintIR({self.header}):\n{module}")
        return module

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        return self._print(module, context)
