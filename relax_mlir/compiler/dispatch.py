"""Dispatch of ``compile`` on the kind of a module."""

from typing import Any

from relax_mlir.compiler import driver
from relax_mlir.compiler.module_kind import ModuleKind, kind_of, module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.ir.module import IRModule
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.runtime.source_model import SourceModel

__all__ = ["compile_module", "native_model"]


@awaited_at_exit
def compile_module(mod: Any, options: CompileOptions) -> Any:
    """Compile a module, function or model; see :func:`relax_mlir.compile`."""
    module = module_of(mod)
    if kind_of(module) is ModuleKind.MODEL and not options.has_pipelines:
        compiled = driver.compile_model(module, options)
    else:
        # Imported late: compiling plain models does not pay for loading it.
        from relax_mlir.compiler.host.build import compile_functions

        compiled = compile_functions(module, options)
    if module.source is not None and isinstance(compiled, CompiledModel):
        compiled.source = SourceModel(module.source, options.to_fields())
    return compiled


def native_model(mod: Any, options: CompileOptions) -> IRModule | None:
    """The module that :func:`driver.compile_contents` takes; None if that is not all of ``mod``.

    Args:
        mod: as for :func:`relax_mlir.compile`.
    """
    module = module_of(mod)
    if kind_of(module) is ModuleKind.MODEL and not options.has_pipelines:
        return module
    from relax_mlir.compiler.host.build import is_native_model, prepared

    module = prepared(module, options)
    is_model = kind_of(module) is not ModuleKind.KERNELS and is_native_model(module)
    return module if is_model else None
