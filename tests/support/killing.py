"""A child process that kills itself at one chosen statement, to see what is left of a write."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from awr.journal.database import Database

__all__ = ["die_at"]


def die_at(boundary: int, *, commits_only: bool = False) -> Callable[[], int]:
    """Kill this process at the n-th boundary: before and after every statement. Return how many there were.

    With `commits_only` the boundaries are those around the commits of writes.
    """
    passed = 0
    run = Database.execute

    def reach() -> None:
        nonlocal passed
        passed += 1
        if passed == boundary:
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGKILL)

    def execute(self: Database, *arguments: Any) -> Any:
        if commits_only and (self.mode, arguments[0]) != ("write", "COMMIT"):
            return run(self, *arguments)
        reach()
        result = run(self, *arguments)
        reach()
        return result

    Database.execute = execute  # type: ignore[method-assign,assignment]
    return lambda: passed
