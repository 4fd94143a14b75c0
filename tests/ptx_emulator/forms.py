"""Table of supported opcodes and modifiers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from relax_mlir.errors import EmulationError
from tests.ptx_emulator.operands import DTYPES, PAIRS

__all__ = ["BOX_COPY", "BOX_PREFETCH", "check_form"]

_TYPES = {*DTYPES, *PAIRS, "pred"}
_SPACES = {"global", "shared", "local", "param", "const"}
_ROUNDED = {"rn", "rz", "rm", "rp"}
_FLUSHED = {"ftz"}
_APPROXIMATED = {"approx", "ftz"}
_COMPARED = {
    *("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "num", "nan"),
    *("equ", "neu", "ltu", "leu", "gtu", "geu", "and", "or", "xor", "ftz"),
}
_VECTORS = {"v2", "v4", "v8"}

_BOX = {
    *("async", "bulk", "tensor", "global", "tile"),
    *(f"{rank}d" for rank in range(1, 6)),
}

BOX_COPY = {*_BOX, "shared::cluster", "shared::cta", "mbarrier::complete_tx::bytes"}
"""What a copy of a box of a tensor may say."""

BOX_PREFETCH = {*_BOX, "prefetch", "L2"}
"""What asks for a box ahead."""

_FORMS: dict[str, set[str]] = {
    "abs": _FLUSHED,
    "add": {*_ROUNDED, "ftz", "sat", "cc"},
    "addc": {"cc"},
    "and": set(),
    "bar": {"sync", "arrive", "warp", "cta"},
    "barrier": {"sync", "arrive", "aligned", "cta"},
    "bfe": set(),
    "bfi": set(),
    "bra": {"uni"},
    "call": {"uni"},
    "clz": set(),
    "copysign": set(),
    "cos": _APPROXIMATED,
    "cp": {
        *("ca", "cg", "shared", "commit_group", "wait_group", "wait_all"),
        *BOX_COPY,
        *BOX_PREFETCH,
    },
    "cvt": {
        *(*_ROUNDED, "rni", "rzi", "rmi", "rpi", "rna", "ftz", "sat", "satfinite"),
        "relu",
    },
    "cvta": {"to", "shared::cluster", *_SPACES},
    "div": {*_ROUNDED, "full", "approx", "ftz"},
    "ex2": _APPROXIMATED,
    "fence": {
        *("mbarrier_init", "release", "cluster", "proxy", "async", "acq_rel", "cta"),
        *("gpu", "sc", "shared::cta", "global"),
    },
    "fma": {*_ROUNDED, "ftz", "sat", "relu"},
    "griddepcontrol": {"launch_dependents", "wait"},
    "ld": {"nc", *_SPACES, *_VECTORS},
    "ldmatrix": {"sync", "aligned", "m8n8", "x1", "x2", "x4", "trans", "shared"},
    "lg2": _APPROXIMATED,
    "lop3": set(),
    "mad": {"lo", "hi", "wide", "cc", *_ROUNDED},
    "madc": {"lo", "hi", "cc"},
    "max": {"ftz", "NaN"},
    "mbarrier": {
        *("init", "arrive", "expect_tx", "try_wait", "parity", "shared"),
        "shared::cta",
    },
    "membar": {"cta", "gl"},
    "min": {"ftz", "NaN"},
    "mma": {"sync", "aligned", "row", "col", "m16n8k4", "m16n8k8", "m16n8k16"},
    "mov": set(),
    "mul": {"lo", "hi", "wide", "sat", "ftz", *_ROUNDED},
    "neg": _FLUSHED,
    "not": set(),
    "or": set(),
    "popc": set(),
    "prefetch": {"tensormap", "param", "global", "L1", "L2"},
    "prmt": set(),
    "rcp": {*_ROUNDED, "approx", "ftz"},
    "rem": set(),
    "ret": {"uni"},
    "rsqrt": _APPROXIMATED,
    "selp": set(),
    "setmaxnreg": {"inc", "dec", "sync", "aligned"},
    "setp": _COMPARED,
    "shf": {"l", "r", "wrap", "clamp"},
    "shfl": {"sync", "up", "down", "bfly", "idx"},
    "shl": set(),
    "shr": set(),
    "sin": _APPROXIMATED,
    "sqrt": {*_ROUNDED, "approx", "ftz"},
    "st": {*_SPACES, *_VECTORS},
    "sub": {*_ROUNDED, "ftz", "sat", "cc"},
    "subc": {"cc"},
    "tanh": {"approx"},
    "testp": {"finite", "infinite", "notanumber", "number"},
    "wgmma": {
        *("fence", "commit_group", "wait_group", "mma_async", "sync", "aligned"),
        *("e4m3", "e5m2"),
    },
    "xor": set(),
}
_PRODUCT = re.compile(r"m64n\d+k\d+")


def check_form(name: str, modifiers: Sequence[str]) -> None:
    """Checks that an instruction and its modifiers are supported.

    Raises:
        EmulationError: they are not.
    """
    known = _FORMS.get(name)
    if known is None:
        raise EmulationError("unsupported instruction")
    for modifier in modifiers:
        is_shape = name == "wgmma" and _PRODUCT.fullmatch(modifier)
        if modifier not in known and modifier not in _TYPES and not is_shape:
            raise EmulationError(f"unsupported: `.{modifier}` here")
    if "nc" in modifiers and "global" not in modifiers:
        raise EmulationError("`.nc` is supported for global memory only")
    is_integer = bool(modifiers) and modifiers[-1][0] in "su"
    if name != "cvt" and is_integer and "sat" in modifiers:
        raise EmulationError("saturating integers are unsupported")
