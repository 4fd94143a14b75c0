"""Compile options, shared by all entry points of the compiler."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from relax_mlir.errors import RelaxError, string_of_argument
from relax_mlir.runtime.cpu import check_threads
from relax_mlir.targets.target import LoweringOptions, Target

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["INHERITED", "CompileOptions"]


@dataclass(frozen=True, kw_only=True)
class CompileOptions(LoweringOptions):
    """Options of a compilation: the keyword arguments of :func:`relax_mlir.compile`.

    Attributes:
        target: the machine, or its name.
        threads: maximum number of threads per call; without effect on GPUs.
        cache: whether to keep compiled kernels on disk, in the user's cache folder; or the
            folder.
        tuning: the database of :func:`relax_mlir.tune`.
        dump: a folder for the module after every stage, numbered.
        verify: ``each-pass`` for differential verification.
        inputs: of differential verification; random by default.
        progress: callback after every pass of a stage, and after every kernel.
        relax_pipeline, tir_pipeline: passes of the user that run first, or the name of a
            pipeline; ``default`` for none.

    Raises:
        TargetError: a policy is unknown; see :class:`LoweringOptions`.
        ArgumentTypeError: the target has no name.
        ValueError: the number of threads is out of range.
        RelaxError: ``verify`` is unknown, or ``inputs`` are given without it.
    """

    target: str | Target = "cpu"
    threads: int = 1
    cache: bool | str | os.PathLike[str] = True
    tuning: str | os.PathLike[str] | None = None
    dump: str | os.PathLike[str] | None = None
    verify: str | None = None
    inputs: Sequence[Any] | None = None  # Any: arrays
    progress: Callable[[str, int, int], object] | None = None
    relax_pipeline: Any = "default"  # Any: a pass, a function of modules, or a name
    tir_pipeline: Any = "default"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.target, Target):
            name = string_of_argument(self.target, "compile: `target`", "a target")
            object.__setattr__(self, "target", name)
        object.__setattr__(self, "threads", check_threads(self.threads))
        if self.verify not in (None, "each-pass"):
            raise RelaxError(
                f"unknown `verify`: expected `each-pass`, got `{self.verify}`"
            )
        if self.inputs is not None and self.verify is None:
            raise RelaxError(
                "`inputs`: expected `verify` with them, which runs the module, got none. "
                'Hint: `verify="each-pass"`'
            )

    @property
    def has_pipelines(self) -> bool:
        """Whether passes of the user run first."""
        pipelines = self.relax_pipeline, self.tir_pipeline
        return any(not (isinstance(p, str) and p == "default") for p in pipelines)

    @property
    def is_cacheable(self) -> bool:
        """Whether the whole result of a compilation may be cached on disk."""
        diagnostics = self.dump, self.verify, self.inputs
        is_plain = all(v is None for v in diagnostics) and not self.has_pipelines
        return is_plain and self.cache not in (False, None)

    def inherited(self) -> dict[str, Any]:  # Any: options of many types
        """The options that JIT-compiled subgraphs inherit, by name."""
        return {name: getattr(self, name) for name in INHERITED}

    def to_fields(self) -> dict[str, Any]:  # Any: JSON
        """The options that a model file holds, for its JIT-compiled subgraphs."""
        target = self.target if isinstance(self.target, str) else asdict(self.target)
        return {name: getattr(self, name) for name in _SAVED} | {"target": target}

    @classmethod
    def from_fields(cls, values: Mapping[str, Any]) -> Self:
        """The options of a model file.

        Args:
            values: :meth:`to_fields`, possibly among others.
        """
        kept = {name: values[name] for name in _SAVED if name in values}
        target = values["target"]
        is_name = isinstance(target, str)
        return cls(**kept, target=target if is_name else Target.from_fields(target))

    def in_folder(self, name: str) -> Self:
        """The options for one function of several, which is dumped to a subfolder."""
        if self.dump is None:
            return self
        folder = re.sub(r"[^\w-]", "_", name)  # no path
        return replace(self, dump=os.path.join(self.dump, folder))


_OF_ONE_MODULE = frozenset(
    {"dump", "verify", "inputs", "progress", "relax_pipeline", "tir_pipeline"}
)
INHERITED = tuple(
    f.name for f in fields(CompileOptions) if f.name not in _OF_ONE_MODULE
)
"""Names of the options of all code of a model, also of subgraphs that are JIT-compiled."""
_SAVED = tuple(n for n in INHERITED if n not in ("target", "cache", "tuning"))
