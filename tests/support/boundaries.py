"""A process that kills itself at one chosen step of a write to a file or to the database."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from awr.journal.database import Database

__all__ = ["die_at_step"]

#: What leaves a trace on the disk: everything else can be lost without anybody noticing.
_STEPS = ("mkdir", "write", "fsync", "fchmod", "rename", "unlink")


def die_at_step(boundary: int) -> Callable[[], int]:
    """Kill this process at the n-th boundary: before and after every file step and every commit.

    Return how many boundaries there were. 0 kills nowhere.
    """
    passed = 0

    def reach() -> None:
        nonlocal passed
        passed += 1
        if passed == boundary:
            os.kill(os.getpid(), signal.SIGKILL)

    def between(step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **named: Any) -> Any:
            reach()
            result = step(*arguments, **named)
            reach()
            return result

        return stepped

    for name in _STEPS:
        setattr(os, name, between(getattr(os, name)))
    run = Database.execute
    commit = between(run)

    def execute(self: Database, sql: str, *arguments: Any) -> Any:
        return (commit if sql == "COMMIT" and self.mode == "write" else run)(self, sql, *arguments)

    Database.execute = execute  # type: ignore[method-assign,assignment]
    sys.stdout.flush()
    return lambda: passed
