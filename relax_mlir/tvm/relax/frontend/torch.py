"""PyTorch front end: :mod:`relax_mlir.frontends.torch` under TVM's names."""

from collections.abc import Mapping
from typing import Any

from relax_mlir.frontends import torch as frontend
from relax_mlir.ir.module import IRModule

__all__ = ["from_exported_program"]


def from_exported_program(
    exported_program: Any,  # Any: torch.export.ExportedProgram
    *,
    keep_params_as_input: bool = False,
    unwrap_unit_return_tuple: bool = False,
    no_bind_return_tuple: bool = False,
    custom_convert_map: Mapping[str, Any] | None = None,
    run_ep_decomposition: bool = True,
) -> IRModule:
    """Import a ``torch.export`` program as a Relax module.

    Args:
        exported_program: the program.
        no_bind_return_tuple: ignored; accepted for compatibility.
        keep_params_as_input, unwrap_unit_return_tuple, custom_convert_map,
            run_ep_decomposition: as for
            :func:`relax_mlir.frontends.torch.from_exported`.
    """
    del no_bind_return_tuple
    return frontend.from_exported(
        exported_program,
        keep_params_as_input=keep_params_as_input,
        unwrap_unit_return_tuple=unwrap_unit_return_tuple,
        custom_convert_map=custom_convert_map,
        run_decompositions=run_ep_decomposition,
    )
