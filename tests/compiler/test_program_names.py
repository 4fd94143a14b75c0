"""Tensor programs may be named as functions of C are, which arithmetic becomes calls of."""

import numpy as np
import pytest

import relax_mlir
from relax_mlir.compiler.driver import run
from relax_mlir.ir.module import IRModule
from relax_mlir.tvm import relax
from relax_mlir.tvm.script import from_source

_SCRIPT = """
@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((600,), "float64")):
        with R.dataflow():
            y = R.erf(x)
            R.output(y)
        return y
"""


def module_with(name: str) -> IRModule:
    """A module whose program for the error function has that name."""
    module = from_source(_SCRIPT)
    assert isinstance(module, IRModule)
    legal = relax.transform.LegalizeOps()(module)
    return IRModule.parse(str(legal).replace("@erf", f"@{name}"))


@pytest.mark.parametrize("name", ["erf", "pow", "memcpy", "memset", "malloc", "free"])
def test_programs_may_have_names_of_c(name: str) -> None:
    """In modules that are lowered whole, and kernel by kernel."""
    module = module_with(name)
    x = np.linspace(-2, 2, 600)

    (at_once,) = run(module, x)
    (by_kernels,) = relax_mlir.compile(module, cache=False)(x)

    assert f"@{name}.entry" in str(relax_mlir.lower(module))
    np.testing.assert_allclose(at_once, by_kernels, rtol=1e-14)
