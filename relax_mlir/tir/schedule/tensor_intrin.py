"""Tensor intrinsics: what a piece of a program computes, and what computes it."""

from __future__ import annotations

from typing import Any, ClassVar

from relax_mlir.errors import near_misses
from relax_mlir.objects.prim_func import PrimFunc

__all__ = ["TensorIntrin"]


class TensorIntrin:
    """What a piece of a program computes, and what computes it.

    Args:
        desc: a program that says what is computed.
        impl: a program of the same parameters that does it.

    Raises:
        ValueError: their parameters are not the same buffers.
    """

    _known: ClassVar[dict[str, TensorIntrin]] = {}

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        if len(desc.params) != len(impl.params):
            raise ValueError(
                f"tensor intrinsic: the description has {len(desc.params)} parameters, "
                f"the implementation {len(impl.params)}: expected as many"
            )
        for program in (desc, impl):
            if any(param not in program.buffer_map for param in program.params):
                raise ValueError(
                    "tensor intrinsic: expected buffers as parameters, got a number"
                )
        for ours, theirs in zip(desc.params, impl.params, strict=True):
            wanted, got = desc.buffer_map[ours], impl.buffer_map[theirs]
            if wanted.dtype != got.dtype:
                raise ValueError(
                    f"tensor intrinsic: buffer `{got.name}` of the implementation: "
                    f"expected elements of type {wanted.dtype}, got {got.dtype}"
                )
        self.desc, self.impl = desc, impl

    @staticmethod
    def register(name: str, desc: Any, impl: Any, override: bool = False) -> None:
        """Make an intrinsic known by a name.

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
            ValueError: there is none, and that is not allowed.
        """
        known = TensorIntrin._known
        if name not in known and not allow_missing:
            raise ValueError(
                f"no tensor intrinsic `{name}` is registered.{near_misses(name, known)}"
            )
        return known.get(name)
