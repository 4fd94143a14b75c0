"""``relax.block_builder``: the builder of Relax functions."""

from relax_mlir.objects.block_builder import BlockBuilder

__all__ = ["BlockBuilder"]
