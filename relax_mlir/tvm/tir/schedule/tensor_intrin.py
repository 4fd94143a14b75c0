"""Tensor intrinsics: a description of the computation and its implementation."""

from __future__ import annotations

from typing import Any, ClassVar

from relax_mlir.errors import near_misses
from relax_mlir.objects.stmt.prim_func import PrimFunc

__all__ = ["TensorIntrin"]


class TensorIntrin:
    """A tensor intrinsic.

    Args:
        desc: a PrimFunc that describes the computation.
        impl: a PrimFunc with the same parameters that implements it.

    Raises:
        ValueError: their parameters are not the same buffers.
    """

    _known: ClassVar[dict[str, TensorIntrin]] = {}

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        if len(desc.params) != len(impl.params):
            raise ValueError(
                f"tensor intrinsic: the description has {len(desc.params)} parameters, "
                f"the implementation {len(impl.params)}: expected the same number"
            )
        for func in (desc, impl):
            if any(param not in func.buffer_map for param in func.params):
                raise ValueError(
                    "tensor intrinsic: expected buffers as parameters, got a number"
                )
        for desc_param, impl_param in zip(desc.params, impl.params, strict=True):
            wanted, got = desc.buffer_map[desc_param], impl.buffer_map[impl_param]
            if wanted.dtype != got.dtype:
                raise ValueError(
                    f"tensor intrinsic: buffer `{got.name}` of the implementation: "
                    f"expected elements of type {wanted.dtype}, got {got.dtype}"
                )
        self.desc, self.impl = desc, impl

    @staticmethod
    def register(name: str, desc: Any, impl: Any, override: bool = False) -> None:
        """Register an intrinsic under a name.

        Raises:
            ValueError: the name is taken.
        """
        if name in TensorIntrin._known and not override:
            raise ValueError(
                f"tensor intrinsic `{name}` is registered already. Hint: `override=True`"
            )
        TensorIntrin._known[name] = TensorIntrin(desc, impl)

    @staticmethod
    def get(name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic with a name.

        Raises:
            ValueError: there is none, and ``allow_missing`` is false.
        """
        known = TensorIntrin._known
        if name not in known and not allow_missing:
            raise ValueError(
                f"no tensor intrinsic `{name}` is registered.{near_misses(name, known)}"
            )
        return known.get(name)
