"""Import models of torch: exported programs, and what ``torch.compile`` finds.

It needs the extra ``torch``: ``pip install relax_mlir[torch]``.
"""

from importlib import import_module
from pkgutil import iter_modules

try:
    import torch as _torch  # noqa: F401  what is missing is told once, here
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

# A family of rules registers them when it is imported, and is found by being here.
for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
