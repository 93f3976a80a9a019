"""One writer at a time, kept by the operating system: a lock is free again when its holder ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from awr.errors import AwrError, RuleViolation, io_error
from awr.project import Project

__all__ = ["held_lock", "private_folder", "translated"]

POLL_S = 0.01


@contextmanager
def held_lock(path: Path, *, busy: AwrError, patience_s: float = 0.0, mode: int = 0o644) -> Iterator[None]:
    """Hold the lock of one file, made if missing, waiting `patience_s` seconds for it. Raise `busy` after that.

    Raise Io for a link in its place. The file stays: removing it would let two processes lock two files of one name.
    """
    with translated():
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    try:
        _take(descriptor, busy=busy, patience_s=patience_s)
        yield
    finally:
        os.close(descriptor)


def private_folder(project: Project, name: str) -> Path:
    """Return a folder of AWR's own in `.awr`, made at first use and kept out of version control.

    Raise RuleViolation for a link in its place.
    """
    folder = project.folder / name
    if folder.is_symlink():
        raise RuleViolation(
            f".awr/{name} is a symbolic link",
            got="a symbolic link",
            expected="a real folder inside the project",
            next_step="replace the link by what it points to",
        )
    with translated():
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)
            (folder / ".gitignore").write_text("*\n")
    return folder


@contextmanager
def translated() -> Iterator[None]:
    """Raise what the operating system refuses as Io."""
    try:
        yield
    except OSError as error:
        raise io_error(error) from None


def _take(descriptor: int, *, busy: AwrError, patience_s: float) -> None:
    # The system's own waiting has no end, and a host that calls us may have stopped the holder.
    until = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise busy from None
            time.sleep(POLL_S)
        else:
            return
