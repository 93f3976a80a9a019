"""A folder of policies, read without trusting it: no links, nobody else's, nobody else may write it, bounded."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path

import msgspec

from awr.errors import InvalidInput, NotFound, RuleViolation, io_error

__all__ = ["MAX_FILES", "MAX_FILE_BYTES", "MAX_POLICY_BYTES", "PolicyFolder", "read_folder", "read_small"]

MAX_FILES = 64
#: Of one file, and of all policies of a folder together.
MAX_FILE_BYTES = 256 * 1024
MAX_POLICY_BYTES = 1024 * 1024
#: What may lie in the folder beside the policies.
MAX_NAMES = 1024

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class PolicyFolder(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a folder that mean something, as bytes."""

    policies: Mapping[str, bytes]
    manifest: bytes | None
    tests: bytes | None


def read_folder(path: Path) -> PolicyFolder:
    """Read a folder of policies. Files of other names, and those that begin with a dot, mean nothing.

    Raise NotFound, RuleViolation for what is not safe to read, InvalidInput for what is too much, and Io.
    """
    path = path.absolute()
    _require_safe_way(path)
    try:
        descriptor = os.open(path, _FLAGS | os.O_DIRECTORY)
    except OSError as error:
        raise io_error(error) from None
    try:
        _require_ours(os.fstat(descriptor), "the folder")
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in entries]
        if len(names) > MAX_NAMES:
            raise _too_much("files in the folder", MAX_NAMES)
        wanted = sorted(name for name in names if name.endswith(".cedar") and not name.startswith("."))
        if len(wanted) > MAX_FILES:
            raise _too_much("policy files", MAX_FILES)
        if not all(map(_NAME.fullmatch, wanted)):
            raise InvalidInput(
                "a policy file has a name that cannot be shown safely",
                expected="letters, digits, dots, dashes and underscores, and .cedar at the end",
                next_step="rename the file",
            )
        policies = {name: _read(descriptor, name) for name in wanted}
        size = sum(map(len, policies.values()))
        if size > MAX_POLICY_BYTES:
            raise _too_much("bytes of policies", MAX_POLICY_BYTES)
        rest = {name: _read(descriptor, name) for name in ("pack.toml", "tests.toml") if name in names}
    finally:
        os.close(descriptor)
    return PolicyFolder(policies=policies, manifest=rest.get("pack.toml"), tests=rest.get("tests.toml"))


def read_small(path: Path) -> bytes:
    """Return the bytes of a small plain file that somebody names. Raise NotFound, InvalidInput or Io."""
    try:
        found = _plain_file(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC))
    except FileNotFoundError:
        raise NotFound(
            "the file does not exist",
            expected="a file; its path counts from the project folder",
            next_step="check the path",
        ) from None
    except OSError as error:
        raise io_error(error) from None
    if found is None:
        raise InvalidInput(
            "what is named is no file",
            got="a folder, a device or a pipe",
            expected="a file",
            next_step="give the path of a file",
        )
    return _within_bounds(found[1])


def _require_safe_way(path: Path) -> None:
    """Raise where somebody else could put another folder in this one's place."""
    for part in (*reversed(path.parents), path):
        try:
            state = part.lstat()
        except FileNotFoundError:
            raise NotFound(
                "the folder of policies does not exist",
                expected="a folder with files whose names end in .cedar",
                next_step="check the path, or run awr guardian policy list",
            ) from None
        except OSError as error:
            raise io_error(error) from None
        if stat.S_ISLNK(state.st_mode):
            raise _unsafe("a link on the way to the policies")
        if not stat.S_ISDIR(state.st_mode):
            raise _unsafe("something else than a folder")
        if state.st_uid not in {os.geteuid(), 0}:
            raise _unsafe("a folder on the way there that belongs to another user")
        # In a sticky folder, such as a temporary one, nobody can move what belongs to somebody else.
        if part != path and state.st_mode & _OTHERS_WRITE and not state.st_mode & stat.S_ISVTX:
            raise _unsafe(f"a folder on the way there with mode {stat.S_IMODE(state.st_mode):04o}")


def _require_ours(state: os.stat_result, what: str) -> None:
    if state.st_uid not in {os.geteuid(), 0}:
        raise _unsafe(f"{what} belongs to another user")
    if state.st_mode & _OTHERS_WRITE:
        raise _unsafe(f"{what} has mode {stat.S_IMODE(state.st_mode):04o}")


def _read(folder: int, name: str) -> bytes:
    try:
        descriptor = os.open(name, _FLAGS, dir_fd=folder)
    except OSError as error:
        raise _unsafe("a link, or a file that cannot be opened") from error
    found = _plain_file(descriptor)
    if found is None:
        raise _unsafe("something that is called like a file of policies and is none")
    state, data = found
    _require_ours(state, "a file")
    return _within_bounds(data)


def _plain_file(descriptor: int) -> tuple[os.stat_result, bytes] | None:
    """Return the state and the first bytes of a plain file, or None for anything else, and close it."""
    try:
        state = os.fstat(descriptor)
        if not stat.S_ISREG(state.st_mode):
            return None
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return state, file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(descriptor)


def _within_bounds(data: bytes) -> bytes:
    if len(data) > MAX_FILE_BYTES:
        raise _too_much("bytes in one file", MAX_FILE_BYTES)
    return data


def _unsafe(got: str) -> RuleViolation:
    return RuleViolation(
        "the policies are not safe to use",
        got=got,
        expected="plain files and folders of this user's or root's, without links, that nobody else may write",
        next_step="take the rights of others away with chmod go-w, and name the folder itself, not a link to it",
    )


def _too_much(what: str, limit: int) -> InvalidInput:
    return InvalidInput(
        f"there are too many {what}",
        got=f"more than {limit:,}",
        expected=f"at most {limit:,}",
        next_step="leave out what does not decide",
    )
