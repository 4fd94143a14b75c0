"""Options of sessions and calls, with onnxruntime's names."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Annotated, Any

from relax_mlir.onnxruntime import errors
from relax_mlir.support.argument_types import at_least

__all__ = [
    "ExecutionMode",
    "ExecutionOrder",
    "GraphOptimizationLevel",
    "RunOptions",
    "SessionOptions",
]


class GraphOptimizationLevel(IntEnum):
    """Ignored: models are always optimized."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Ignored: kernels run one after the other, each on several threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """Ignored."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Options:
    """What options of sessions and calls have in common, all of which is ignored."""

    def __init__(self) -> None:
        self._entries: dict[str, str] = {}
        self.log_severity_level = -1
        self.log_verbosity_level = 0
        self.logid = ""

    def _entry(self, key: str) -> str:
        if key not in self._entries:
            raise RuntimeError(f"config entry `{key}`: expected one that was added")
        return self._entries[key]


class SessionOptions(_Options):
    """Options of a session.

    Three have an effect. The others are accepted and ignored: they select among
    optimizations, allocators, logs and execution modes of onnxruntime.

    Attributes:
        intra_op_num_threads: maximum number of threads of a call; 0 for all CPUs.
        enable_profiling: whether :meth:`InferenceSession.end_profiling` writes a profile.
        profile_file_prefix: of the profile's file.
    """

    def __init__(self) -> None:
        super().__init__()
        self.intra_op_num_threads = 0
        self.enable_profiling = False
        self.profile_file_prefix = "onnxruntime_profile_"
        self.sizes: dict[str, int] = {}
        # Ignored.
        self.enable_cpu_mem_arena = True
        self.enable_mem_pattern = True
        self.enable_mem_reuse = True
        self.execution_mode = ExecutionMode.ORT_SEQUENTIAL
        self.execution_order = ExecutionOrder.DEFAULT
        self.graph_optimization_level = GraphOptimizationLevel.ORT_ENABLE_ALL
        self.inter_op_num_threads = 0
        self.optimized_model_filepath = ""
        self.use_deterministic_compute = False
        self.use_per_session_threads = True

    def add_free_dimension_override_by_name(
        self, name: str, size: Annotated[int, at_least(0)]
    ) -> None:
        """Give a symbolic size of the inputs a value; the model is compiled for it."""
        self.sizes[name] = size

    def add_free_dimension_override_by_denotation(
        self, denotation: str, size: int
    ) -> None:
        """Ignored: few models have denotations."""

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Keep an entry, without effect."""
        self._entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry.

        Raises:
            RuntimeError: there is none.
        """
        return self._entry(key)

    def add_initializer(self, name: str, value: Any) -> None:
        """Refused: weights are in the model.

        Raises:
            NotImplemented: always.
        """
        raise errors.NotImplemented(
            f"add_initializer: `{name}`: expected weights in the model"
        )

    def add_external_initializers(
        self, names: Sequence[str], values: Sequence[Any]
    ) -> None:
        """Refused: weights are in the model.

        Raises:
            NotImplemented: always.
        """
        raise errors.NotImplemented(
            "add_external_initializers: expected weights in the model"
        )

    def register_custom_ops_library(self, path: str) -> None:
        """Refused: operators are registered in Python.

        Raises:
            NotImplemented: always.
        """
        raise errors.NotImplemented(
            f"register_custom_ops_library: `{path}`: expected operators in Python. Hint: "
            "docs/extending.md"
        )


class RunOptions(_Options):
    """Options of a call, which are accepted and ignored."""

    def __init__(self) -> None:
        super().__init__()
        self.only_execute_path_to_fetches = False
        self.terminate = False

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Keep an entry, without effect."""
        self._entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """The value of an entry.

        Raises:
            RuntimeError: there is none.
        """
        return self._entry(key)
