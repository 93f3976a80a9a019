"""Files that the operator keeps: opened so that nothing else can stand in their place."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

from awr.errors import NotFound, RuleViolation

__all__ = ["read_owned"]


def read_owned(
    path: Path, *, forbidden: int, limit: int, missing: NotFound, unsafe: Callable[[str], RuleViolation]
) -> bytes:
    """Return a file's first `limit` + 1 bytes. What is looked at is what is read, not a name.

    Raise `missing`, and `unsafe` with what was found: a link, something else than a file, a file of another user
    except root's, or one whose mode has a bit of `forbidden`.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise missing from None
    except OSError as error:
        raise unsafe("a link, or a file that cannot be opened") from error
    state = os.fstat(descriptor)
    problem = None
    if not stat.S_ISREG(state.st_mode):
        problem = "something else than a file"
    elif state.st_uid not in {os.geteuid(), 0}:
        problem = "a file of another user"
    elif state.st_mode & forbidden:
        problem = f"mode {stat.S_IMODE(state.st_mode):04o}"
    if problem is not None:
        os.close(descriptor)
        raise unsafe(problem)
    with os.fdopen(descriptor, "rb") as file:
        return file.read(limit + 1)
