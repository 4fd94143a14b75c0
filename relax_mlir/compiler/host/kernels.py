"""Compilation of PrimFuncs to kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlir import ir

from relax_mlir.analysis.access_bounds import required_sizes
from relax_mlir.compiler import driver
from relax_mlir.compiler.host.builder import FunctionBuilder, Register
from relax_mlir.compiler.host.prim_expr import emit_scalar
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.errors import (
    PassError,
    RelaxError,
    UnsupportedError,
)
from relax_mlir.ir import function_attributes
from relax_mlir.ir.module import IRModule
from relax_mlir.ir.traversal import walk
from relax_mlir.objects import prim
from relax_mlir.objects.stmt.prim_func import PrimFunc
from relax_mlir.objects.stmt.statements import AssertStmt
from relax_mlir.pipeline import Pipeline
from relax_mlir.rewrite.patterns import erase
from relax_mlir.runtime.host.kernels import Kernel, KernelModule
from relax_mlir.runtime.host.program import HostFunction
from relax_mlir.targets import target_device

__all__ = [
    "compile_kernel",
    "compile_kernels",
    "kernel_names",
    "with_main",
]


def compile_kernels(module: IRModule, options: CompileOptions) -> KernelModule:
    """Compile the public PrimFuncs of a module; all of them if all are private.

    Args:
        module: the module.
        options: user-defined pipelines are not applied.

    Raises:
        RelaxError: the module has no PrimFunc, or one cannot be compiled.
        UnsupportedError: differential verification is requested.
    """
    if options.verify is not None:
        raise UnsupportedError(
            "`verify`: expected a model, whose results are compared, got PrimFuncs alone, "
            "which write to their arguments"
        )
    names = kernel_names(module)
    return KernelModule({n: compile_kernel(module, n, options) for n in names})


def kernel_names(module: IRModule) -> list[str]:
    """Names of the public PrimFuncs of a module; of all of them if all are private.

    Raises:
        RelaxError: the module has no PrimFunc.
    """
    functions = [f for f in module.func_ops() if function_attributes.is_prim_func(f)]
    public = [f for f in functions if not function_attributes.is_private(f)]
    selected = public or functions
    if not selected:
        raise RelaxError("module: expected a PrimFunc to compile, got none")
    return [f.name.value for f in selected]


def compile_kernel(module: IRModule, name: str, options: CompileOptions) -> Kernel:
    """Compile one PrimFunc of a module; see :func:`compile_kernels`.

    It is dumped to a subfolder of its name.

    Raises:
        RelaxError: the PrimFunc cannot be compiled.
    """
    asserted = _assertion_check(name, module[name])
    try:
        with module.context:
            required_sizes(module.func_op(name))
    except ValueError as error:
        raise PassError(str(error)) from error
    alone = with_main(module, name, options)
    with alone.context:
        written = _written_inputs(alone)
    code = driver.compile_model(alone, options.in_folder(name))
    return Kernel(name, code, written, asserted)


def with_main(module: IRModule, name: str, options: CompileOptions) -> IRModule:
    """The PrimFuncs of a module, and a ``main`` that calls one of them on its parameters."""
    alone = module.clone()
    for function in alone.func_ops():
        # Graphs may not be legal input of the pipeline.
        if not function_attributes.is_prim_func(function):
            erase(function)
    # GPU launches take sizes, and no other scalars.
    is_gpu = target_device(options.target) != "cpu"
    pass_options = f"program={name} integers={str(is_gpu).lower()}"
    Pipeline.parse(f"tir-collapse-loops,tir-make-main{{{pass_options}}}").run(alone)
    return alone


def _assertion_check(name: str, program: PrimFunc) -> HostFunction | None:
    """Host function that checks the leading assertions of a PrimFunc on its parameters."""
    builder = FunctionBuilder([param.name for param in program.params])
    readers: dict[prim.Var, Callable[[], Register]] = {}
    for register, param in zip(builder.params, program.params, strict=True):
        buffer = program.buffer_map.get(param)
        if buffer is None:
            readers[param] = partial(builder.emit, "scalar", [register])
            continue
        for axis, size in enumerate(buffer.shape):
            if isinstance(size, prim.Var):
                dim = partial(builder.emit, "dim", [register], [axis])
                readers.setdefault(size, dim)
    has_assertion, statement = False, program.body
    while isinstance(statement, AssertStmt):
        used = prim.post_order(statement.condition)
        if any(isinstance(t, prim.Var) and t not in readers for t in used):
            break
        try:
            with builder.block() as block:
                condition = emit_scalar(
                    builder, statement.condition, lambda var: readers[var]()
                )
        except UnsupportedError:  # the condition reads a buffer
            break
        builder.splice(block)
        message = str(getattr(statement.message, "value", ""))
        builder.emit_to([], "require", [condition], [f"`{name}`: {message}"])
        has_assertion, statement = True, statement.body
    return builder.finish(builder.literal(None)) if has_assertion else None


def _written_inputs(module: IRModule) -> tuple[int, ...]:
    """Indices of the inputs of ``main`` that its callee may write to."""
    main = module.func_op("main")
    (call,) = (o for o in walk(main) if o.operation.name == "func.call")
    program = module.func_op(ir.FlatSymbolRefAttr(call.attributes["callee"]).value)
    are_written = [_is_written(a) for a in program.entry_block.arguments]
    operands = list(call.operands)
    inputs = list(main.entry_block.arguments)
    return tuple(
        index
        for index, value in enumerate(inputs)
        if any(w and o == value for w, o in zip(are_written, operands, strict=True))
    )


_READS = frozenset({"memref.load", "memref.dim", "vector.load"})


def _is_written(buffer: ir.Value) -> bool:
    if not isinstance(buffer.type, ir.MemRefType):
        return False
    for use in buffer.uses:
        owner = use.owner.operation
        if owner.name == "memref.subview":
            if _is_written(owner.results[0]):
                return True
        elif owner.name not in _READS:
            return True
    return False
