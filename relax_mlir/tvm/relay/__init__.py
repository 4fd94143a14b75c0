"""The subset of Relay, TVM's first graph IR, that TVM's early tutorials use.

Its functions are built as Relax.
"""

from relax_mlir.support.argument_types import check_exports
from relax_mlir.tvm.relay import ir_pass
from relax_mlir.tvm.relay.expr import Call, Function, const, operator, var

__all__ = ["Call", "Function", "const", "ir_pass", "var"]


def __getattr__(name: str) -> object:
    """Returns an operator: ``relay.add``, ``relay.exp``, ..."""
    if name.startswith("__"):
        raise AttributeError(name)
    return operator(name)


check_exports(globals())
