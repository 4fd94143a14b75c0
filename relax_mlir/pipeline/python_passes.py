"""Passes that are Python functions on modules, functions or blocks, and lists of passes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from relax_mlir.module import IRModule
from relax_mlir.objects.expr import BindingBlock, DataflowBlock, DataflowVar, SeqExpr
from relax_mlir.objects.function import Function
from relax_mlir.pass_context import AnyPass, PassContext, PassInfo
from relax_mlir.pipeline import catalog
from relax_mlir.rewriting import Pass

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
    """A pass that a Python function is."""

    method: ClassVar[str]  # what a class that is made a pass calls its function
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
        """The function."""
        return self._change

    def run(self, module: IRModule) -> None:
        module.become(self.transform(module.clone(), PassContext.current()))

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.info.name})"


class ModulePass(_PythonPass):
    """A Python function from a module and a context to a module."""

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
    """A Python function that is given every function of the graph level."""

    method = "transform_function"

    def transform(self, module: IRModule, context: PassContext) -> IRModule:
        changed = IRModule(module.functions, attrs=module.attrs)
        for name, function in module.functions.items():
            if isinstance(function, Function):
                changed[name] = self._change(function, module, context)
        return changed


class DataflowBlockPass(_PythonPass):
    """A Python function that is given every dataflow block."""

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
                f"pass `{self.info.name}`: dataflow block defines `{name}` for its "
                "outside, which it did not before"
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
        made = _class_pass if inspect.isclass(change) else _function_pass
        found = made(kind, change, info)
        catalog.register_pass(info.name, found)
        return found

    return decorate if function is None else decorate(function)


def _name_of(change: Any) -> str:
    """What a pass is called if it is not said: as its function or class."""
    return str(getattr(change, "__name__", type(change).__name__))


def _check_is_callable(value: object) -> None:
    if not callable(value):
        raise TypeError(f"expected a function or a class, got {value!r}")


def _function_pass(kind: type[_PythonPass], change: Any, info: PassInfo) -> _PythonPass:
    return kind(change, info)


def _class_pass(
    kind: type[_PythonPass], cls: type, info: PassInfo
) -> type[_PythonPass]:
    """A class of passes, from one that has the method."""
    method = kind.method

    class Made(kind):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            inner = cls(*args, **kwargs)
            super().__init__(getattr(inner, method), info)
            self.__dict__["_inner"] = inner

        def __getattr__(self, attribute: str) -> Any:
            return getattr(self.__dict__["_inner"], attribute)

    functools.update_wrapper(Made.__init__, cls.__init__)
    Made.__name__ = Made.__qualname__ = cls.__name__
    Made.__doc__, Made.__module__ = cls.__doc__, cls.__module__
    return Made


def module_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: a pass, a class of passes, or a decorator that makes one
    """Make a pass of a function ``(module, context) -> module``.

    Or a class of passes, of a class with such a method ``transform_module``. Its name
    stands for it in pipeline text.

    Raises:
        ValueError: no ``opt_level`` is given.
        TypeError: ``required`` is no list.
    """
    return _decorator(ModulePass, pass_func, opt_level, name, required, traceable)


def function_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: see module_pass
    """Make a pass of a function ``(function, module, context) -> function``.

    Or a class of passes, of a class with such a method ``transform_function``.

    Raises:
        ValueError: no ``opt_level`` is given.
        TypeError: ``required`` is no list.
    """
    return _decorator(FunctionPass, pass_func, opt_level, name, required, traceable)


def dataflowblock_pass(
    pass_func: Any = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> Any:  # Any: see module_pass
    """Make a pass of a function ``(block, module, context) -> block``.

    Or a class of passes, of a class with such a method ``transform_dataflowblock``.

    Raises:
        ValueError: no ``opt_level`` is given.
        TypeError: ``required`` is no list.
    """
    return _decorator(
        DataflowBlockPass, pass_func, opt_level, name, required, traceable
    )


class Sequential(_PythonPass):
    """Passes one after the other, as far as the context enables them.

    Args:
        passes: passes, or pipeline text.
        opt_level, name, required, traceable: of the whole.

    Raises:
        TypeError: ``passes`` or ``required`` is no list.
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
