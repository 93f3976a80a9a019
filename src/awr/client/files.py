"""Files that only their owner reads: written whole, durably, and never through a link."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from awr.errors import WorkflowRefused

__all__ = ["private_folder", "read_private", "replace_private", "sync_folder", "write_private"]


def private_folder(folder: Path) -> None:
    """Make a folder that only its owner may enter, or find that it is one. Raise WorkflowRefused otherwise."""
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700, parents=True)
        sync_folder(folder.parent)
    found = folder.lstat()
    problem = None
    if not stat.S_ISDIR(found.st_mode):
        problem = "a symbolic link" if stat.S_ISLNK(found.st_mode) else "something else than a folder"
    elif found.st_uid != os.geteuid():
        problem = "a folder of another user"
    elif found.st_mode & 0o077:
        problem = f"a folder with mode {stat.S_IMODE(found.st_mode):04o}"
    if problem is not None:
        raise WorkflowRefused(
            "the workflow's folder is not private",
            got=problem,
            expected="a folder of its own with mode 0700; it is made if it is missing",
            next_step="give the state file a folder of its own, or take the rights of others away with chmod 700",
        )


def write_private(path: Path, data: bytes) -> None:
    """Write a new file that only its owner reads, durably. Raise FileExistsError if the name is taken."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def replace_private(path: Path, data: bytes) -> None:
    """Put `data` in the place of a file, whole or not at all, durably."""
    temporary = path.with_name(f".{path.name}.new")
    # What a killed writer left behind; the caller holds the lock, so nobody else writes it now.
    temporary.unlink(missing_ok=True)
    write_private(temporary, data)
    temporary.rename(path)
    sync_folder(path.parent)


def read_private(path: Path, *, limit: int) -> bytes | None:
    """Return the bytes of a file, or None if there is none. Raise WorkflowRefused for a link or a file too large."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        if not path.is_symlink():
            raise
        raise _unreadable("a symbolic link") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _unreadable("something else than a file")
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise _unreadable(f"more than {limit} bytes")
    return data


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _unreadable(got: str) -> WorkflowRefused:
    return WorkflowRefused(
        "a file of the workflow is not what the workflow wrote",
        got=got,
        expected="a regular file of bounded size",
        next_step="keep the files as they are; begin with a new state file and adopt the session",
    )
