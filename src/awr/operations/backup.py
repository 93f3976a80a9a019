"""A recovery set: the database, the manifest, the sources and AWR's own files, in one folder that proves itself.

The database is copied by SQLite's backup interface while nobody of this program writes to a source. The folder is
made under another name and takes its own only when every byte in it has been read back.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.errors import InvalidInput, SourceConflict, Storage, io_error
from awr.ids import new_id, system_clock
from awr.journal.journal import Journal, Reader
from awr.journal.sources import live_sources
from awr.journal.verification import verify
from awr.operations.fields import described
from awr.project import Project
from awr.sources.files import MANIFEST_LIMIT, Location, fingerprint, read_location, resolve_location
from awr.sources.manifest import read_manifest
from awr.sources.writeback import source_lock

__all__ = [
    "DATABASE",
    "LIST",
    "MAX_FILE_BYTES",
    "PROJECT",
    "BackupRequest",
    "BackupResult",
    "RecoverySet",
    "StoredFile",
    "backup",
    "copied_file",
    "file_fingerprint",
]

LIST = "recovery-set.json"
DATABASE = "state.db"
#: The folder of a recovery set that holds files as they lie in the project.
PROJECT = "project"
MAX_FILE_BYTES = 256 * 1024 * 1024

#: What a backup leaves out of `.awr`: the database has a copy of its own, a cache is made again, and neither locks
#: (`clients` holds nothing else) nor what an earlier restore kept aside belong to the project.
_LEFT_OUT = ("cache", "clients", "replaced-", "restoring-")


class StoredFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One file of the project: its path there, with its permissions, size and `sha256:` fingerprint."""

    path: str
    mode: int
    size: int
    fingerprint: str


class RecoverySet(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a recovery set holds. `head` is the newest link of its journal; `files` are sorted by path."""

    format: Literal["awr.recovery_set.v1"] = "awr.recovery_set.v1"
    project_id: str
    project_revision: int
    head: str
    created_at: int
    database: StoredFile
    files: tuple[StoredFile, ...]
    outside: tuple[str, ...]


class BackupRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: Annotated[str, described("The folder to make; it must not exist yet, or be empty.", argument=True)]


class BackupResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was copied. `outside` has sources that lie outside the project and are not in the copy."""

    ok: Literal[True] = True
    project_id: str
    project_revision: int
    read_only: Literal[True] = True
    head: str
    files: int
    bytes: int
    outside: tuple[str, ...]


def backup(project: Project, request: BackupRequest) -> BackupResult:
    """Copy the project into a new folder and verify the copy.

    The sources are copied as they are now, indexed or not. Raise InvalidInput for a folder that is in use or inside
    `.awr`, Storage for a journal that does not verify, MutationConflict while a source is being written, Io.
    """
    target = _target(project, Path(request.folder))
    unfinished = target.with_name(f"{target.name}.unfinished-{new_id(system_clock())}")
    try:
        unfinished.mkdir(mode=0o700, parents=True)
        try:
            found = _copied(project, unfinished)
            if target.exists():
                target.rmdir()
            unfinished.rename(target)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    except OSError as error:
        raise io_error(error) from None
    return BackupResult(
        project_id=found.project_id,
        project_revision=found.project_revision,
        head=found.head,
        files=len(found.files) + 1,
        bytes=found.database.size + sum(each.size for each in found.files),
        outside=found.outside,
    )


def copied_file(source: Location, target: Path, *, path: str, limit: int = MAX_FILE_BYTES) -> StoredFile:
    """Copy one file durably and return what it is. Raise what read_location raises, and OSError."""
    data = read_location(source, limit=limit).data
    mode = source.path.stat().st_mode & 0o777
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with target.open("xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    target.chmod(0o600)
    return StoredFile(path, mode, len(data), fingerprint(data))


def file_fingerprint(path: Path) -> str:
    """Return `sha256:` and the hex digest of a file of any size."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def _target(project: Project, folder: Path) -> Path:
    target = Path(os.path.abspath(folder))  # noqa: PTH100  # resolve() would follow a link that stands there
    problem = None
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        problem = "something that is no folder"
    elif target.is_dir() and any(target.iterdir()):
        problem = "a folder with something in it"
    elif target == project.root or project.folder in (target, *target.parents):
        problem = "a folder of the project itself"
    if problem is None:
        return target
    raise InvalidInput(
        "the backup needs a folder of its own",
        got=problem,
        expected="a folder that does not exist yet, or is empty, outside of .awr",
        next_step="name another folder",
    )


def _copied(project: Project, folder: Path) -> RecoverySet:
    with ExitStack() as held:
        with project.journal.read() as reader:
            for row in live_sources(reader.database):
                held.enter_context(source_lock(project, row.id))
        with project.journal.read() as reader:
            database = _copied_database(reader, folder)
            project_id, revision, now = reader.project_id, reader.project_revision, reader.now
        files, outside = _copied_files(project, folder / PROJECT)
    found = RecoverySet(
        project_id=project_id,
        project_revision=revision,
        head=_verified_head(folder / DATABASE),
        created_at=now,
        database=database,
        files=tuple(sorted(files, key=lambda each: each.path)),
        outside=outside,
    )
    for stored in found.files:
        again = read_location(Location(folder, (PROJECT, *stored.path.split("/")), stored.path), limit=MAX_FILE_BYTES)
        if again.fingerprint != stored.fingerprint:
            raise SourceConflict(
                "a file of the backup is not what was copied",
                expected="a disk that keeps what is written to it",
                next_step="make the backup on another disk",
            )
    with (folder / LIST).open("xb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(found, order="sorted"), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return found


def _copied_database(reader: Reader, folder: Path) -> StoredFile:
    path = folder / DATABASE
    reader.database.copy_to(path)
    path.chmod(0o600)
    with path.open("rb") as file:
        os.fsync(file.fileno())
    mode = reader.database.path.stat().st_mode & 0o777
    return StoredFile(DATABASE, mode, path.stat().st_size, file_fingerprint(path))


def _verified_head(path: Path) -> str:
    with Journal(path).read() as reader:
        found = verify(reader.database)
    if found.broken is None and found.head is not None:
        return found.head
    raise Storage(
        "nothing was backed up, for the journal is not as it was written",
        got=found.broken.problem if found.broken else "an empty journal",
        expected="a journal that verifies",
        next_step="run awr doctor; an older backup may still be whole",
    )


def _copied_files(project: Project, folder: Path) -> tuple[list[StoredFile], tuple[str, ...]]:
    manifest = read_manifest(project.manifest_path)
    places: dict[str, Location] = {}
    outside = []
    for mapping in manifest.sources:
        location = resolve_location(mapping.location, root=project.root, authorized_roots=manifest.authorized_roots)
        if location.locator.startswith("file://"):
            outside.append(mapping.location)
        elif location.path.exists():
            places["/".join(location.parts)] = location
    for parts in _own_files(project):
        places["/".join(parts)] = Location(project.root, parts, "/".join(parts))
    files = []
    for path, location in places.items():
        try:
            files.append(copied_file(location, folder / path, path=path, limit=_limit(path)))
        except FileNotFoundError:
            # A file of AWR's own that went away between the look and the copy was not needed any more.
            continue
    return files, tuple(outside)


def _limit(path: str) -> int:
    return MANIFEST_LIMIT if path == ".awr/project.toml" else MAX_FILE_BYTES


def _own_files(project: Project) -> Iterator[tuple[str, ...]]:
    """Yield the steps of every real file in `.awr` that belongs to the project and is not the database."""
    for folder, names, files in os.walk(project.folder):
        names[:] = sorted(
            name for name in names if not name.startswith(_LEFT_OUT) and not Path(folder, name).is_symlink()
        )
        for name in sorted(files):
            path = Path(folder, name)
            database = path.parent == project.folder and name.startswith(project.journal.path.name)
            if not database and not name.endswith(".lock") and path.is_file() and not path.is_symlink():
                yield path.relative_to(project.root).parts
