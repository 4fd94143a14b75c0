"""The package's logger, ``relax_mlir``: silent unless the program configures ``logging``.

It names what is compiled at run time, loaded from a cache, left to others, or ignored. Where
nothing has imported ``logging``, nobody listens, and nothing is imported.
"""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["INFO", "WARNING", "log"]

INFO, WARNING = 20, 30  # levels of `logging`

_is_silenced = False


def log(
    level: int, name: str, text: str, *arguments: Any
) -> None:  # Any: as in logging
    """Log a message.

    Args:
        level: ``INFO`` or ``WARNING``.
        name: of the logger below ``relax_mlir``.
        text: a format of ``logging``, with its arguments.
    """
    global _is_silenced
    logging = sys.modules.get("logging")
    if logging is None:
        return
    if not _is_silenced:
        logging.getLogger("relax_mlir").addHandler(logging.NullHandler())
        _is_silenced = True
    logging.getLogger(f"relax_mlir.{name}").log(level, text, *arguments)
