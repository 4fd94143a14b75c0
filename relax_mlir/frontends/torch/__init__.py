"""PyTorch frontend: importer of exported programs, and a ``torch.compile`` backend.

Requires the extra ``torch``: ``pip install relax_mlir[torch]``.
"""

from importlib import import_module
from pkgutil import iter_modules

try:
    import torch as _torch  # noqa: F401  one check for all modules
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ModuleNotFoundError(
        "`relax_mlir.frontends.torch`: torch is not installed. Hint: `pip install "
        "relax_mlir[torch]`.",
        name="torch",
    ) from error

from relax_mlir.frontends.torch.compile import relax_mlir_backend
from relax_mlir.frontends.torch.importer import from_exported
from relax_mlir.frontends.torch.node import TorchNode
from relax_mlir.frontends.torch.rules import torch_rule

__all__ = [
    "TorchNode",
    "from_exported",
    "relax_mlir_backend",
    "torch_rule",
]

# Importing a module of rules registers them; every module in this package is imported.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
