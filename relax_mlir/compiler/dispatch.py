"""Dispatch of ``compile`` on the kind of a module."""

from typing import Any

from relax_mlir.compiler import driver
from relax_mlir.compiler.module_kind import ModuleKind, kind_of, module_of
from relax_mlir.compiler.options import CompileOptions
from relax_mlir.runtime.compiled_model import CompiledModel
from relax_mlir.runtime.process_exit import awaited_at_exit
from relax_mlir.runtime.source_model import SourceModel

__all__ = ["compile_module"]


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
