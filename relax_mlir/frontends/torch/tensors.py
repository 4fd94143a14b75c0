"""Conversion of torch tensors to arrays and constants, and of element types to names."""

from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from relax_mlir.objects.expr import Constant

__all__ = ["array_of", "constant_of", "dtype_name"]

_INTEGER = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def dtype_name(dtype: Any) -> str:  # Any: a torch.dtype, which stubs may lack
    """The name of an element type, such as ``float32``.

    Raises:
        NotImplementedError: it is complex or quantized.
    """
    name = str(dtype).removeprefix("torch.")
    if name.startswith(("complex", "q")):
        raise NotImplementedError(
            f"element type `{name}`: expected real numbers or bool"
        )
    return name


def array_of(tensor: Any) -> np.ndarray:  # Any: a torch.Tensor
    """A view of a tensor's memory; a copy if it is strided or not on the CPU."""
    name = dtype_name(tensor.dtype)
    ours = getattr(ml_dtypes, name, None)
    with unset_fake_temporarily():  # torch calls backends while tracing
        plain = tensor.detach().cpu().contiguous()
        if ours is None:
            return plain.numpy()
        return plain.view(_INTEGER[plain.element_size()]).numpy().view(ours)


def constant_of(tensor: Any) -> Constant:  # Any: a torch.Tensor
    """A tensor as a constant; a view of its memory if possible."""
    return Constant(array_of(tensor))
