"""Writing a source so that it is there whole, as it was or as it will be, whatever ends the writer.

One lock per source keeps two writers of this program apart; editors do not take it, so the bytes are compared right
before they are replaced. What the file was and will be lies in `.awr/mutations/<proposal id>/` before anything is
written, so that a begun write can be finished by another process.
"""

from __future__ import annotations

import os
import stat
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Literal

from awr.chain import journal_bytes
from awr.errors import AwrError, MutationConflict
from awr.journal.sources import SourceRow
from awr.project import Project
from awr.sources.files import YAML_LIMIT, Location, read_location, resolve_location
from awr.sources.locking import held_lock, private_folder, translated
from awr.sources.manifest import read_manifest

__all__ = [
    "SourceCheck",
    "compare",
    "install",
    "location_of",
    "recovery_folder",
    "source_lock",
    "stage",
    "staged_after",
]

SourceCheck = Literal["equal_to_before", "equal_to_after", "changed", "unavailable"]

FOLDER = "mutations"
_BEFORE, _AFTER, _PLAN = "before.yaml", "after.yaml", "plan.json"


def source_lock(project: Project, source_id: str) -> AbstractContextManager[None]:
    """Hold the writer's lock of one source. Raise MutationConflict at once when somebody else holds it."""
    busy = MutationConflict(
        "another process is writing to this source",
        expected="one writer at a time",
        next_step="wait a moment, run awr status, then repeat this with the new revision",
    )
    return held_lock(private_folder(project, FOLDER) / f"{source_id}.lock", busy=busy)


def location_of(project: Project, source: SourceRow) -> Location:
    """Return the place of a source. Raise what resolve_location and read_manifest raise."""
    manifest = read_manifest(project.manifest_path)
    return resolve_location(source.locator, root=project.root, authorized_roots=manifest.authorized_roots)


def recovery_folder(proposal_id: str) -> str:
    """Return where a proposal's snapshots lie, relative to the project."""
    return f".awr/{FOLDER}/{proposal_id}"


def stage(project: Project, proposal_id: str, *, before: bytes, after: bytes, plan: dict[str, Any]) -> None:
    """Write both states of a source and the plan to the disk, for good, before the source is touched."""
    folder = private_folder(project, FOLDER) / proposal_id
    with translated():
        folder.mkdir(mode=0o700)
        for name, data in ((_BEFORE, before), (_AFTER, after), (_PLAN, journal_bytes(plan))):
            _write(folder / name, data)
        _sync_folder(folder)
        _sync_folder(folder.parent)


def staged_after(project: Project, proposal_id: str, *, wanted: str) -> bytes:
    """Return what a source was to become. Raise MutationConflict unless it is there with the recorded hash."""
    folder = private_folder(project, FOLDER)
    try:
        found = read_location(Location(folder, (proposal_id, _AFTER), _AFTER), limit=YAML_LIMIT)
    except AwrError:
        found = None
    if found is None or found.fingerprint != wanted:
        raise MutationConflict(
            "the snapshot of the begun write is missing or changed",
            got="another file" if found else "no readable file",
            expected=f"{recovery_folder(proposal_id)}/{_AFTER} as it was written",
            next_step="restore the .awr/mutations folder from a copy, then recover again",
        )
    return found.data


def compare(location: Location, *, before: str, after: str | None) -> SourceCheck:
    """Say what a source is now, compared with the two hashes of a proposal."""
    try:
        now = read_location(location, limit=YAML_LIMIT).fingerprint
    except AwrError:
        return "unavailable"
    if now == after:
        return "equal_to_after"
    return "equal_to_before" if now == before else "changed"


def install(location: Location, data: bytes, *, before: str, proposal_id: str) -> None:
    """Replace a source by `data`, whole and durably, keeping its permissions.

    Raise MutationConflict if its bytes are not those of `before` at the last look, RuleViolation for a link on the
    way, and what read_location raises.
    """
    with translated():
        folder = _folder_of(location)
        try:
            _replace(folder, location, data, before=before, temporary=f".{location.parts[-1]}.{proposal_id}")
        finally:
            os.close(folder)


def _replace(folder: int, location: Location, data: bytes, *, before: str, temporary: str) -> None:
    name = location.parts[-1]
    with suppress(FileNotFoundError):
        # What a killed writer left behind.
        os.unlink(temporary, dir_fd=folder)
    mode = stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
        try:
            _write_all(descriptor, data)
            os.fchmod(descriptor, mode)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if read_location(location, limit=YAML_LIMIT).fingerprint != before:
            raise MutationConflict(
                "the source changed before it could be written",
                got="other bytes than the edit was made for",
                expected="the source as it was indexed",
                next_step="look at the file, run awr source reindex, then decide anew",
            )
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)


def _folder_of(location: Location) -> int:
    """Open the folder of a source step by step, without following links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    folder = os.open(location.base, flags)
    for part in location.parts[:-1]:
        try:
            following = os.open(part, flags | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = following
    return folder


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
