"""Putting a recovery set in place: all of it is verified first, and what it replaces is kept aside.

The database moves last, and never stands beside the log of another one. A restore that was killed leaves what it had
moved in the folder it names, and running it again finishes it.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.errors import AwrError, InvalidInput, NotFound, RuleViolation, SourceConflict, Storage, io_error
from awr.ids import new_id, system_clock
from awr.journal.journal import Journal, Reader
from awr.journal.verification import verify
from awr.operations.backup import (
    DATABASE,
    LIST,
    MAX_FILE_BYTES,
    PROJECT,
    RecoverySet,
    StoredFile,
    copied_file,
    file_fingerprint,
)
from awr.operations.fields import described
from awr.project import Project
from awr.sources.files import Location, fingerprint, named_file, read_location, relative_parts

__all__ = ["FileRestore", "Relation", "RestoreRequest", "RestoreResult", "restore"]

MAX_LIST_BYTES = 16 * 1024 * 1024

Relation = Literal["none", "same", "older", "newer", "diverged", "unreadable"]


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    folder: Annotated[str, described("The folder that awr backup made.", argument=True)]
    accept: Annotated[bool, described("Put it in place; what it replaces is kept aside.")] = False


class FileRestore(msgspec.Struct, frozen=True):
    """One file of the project and what the restore does to it."""

    path: str
    action: Literal["create", "replace", "unchanged"]


class RestoreResult(msgspec.Struct, frozen=True, kw_only=True):
    """The preview, or with `accepted` what was done.

    `present` says how the journal in place stands to the one in the backup: none, the same, older, newer, diverged
    from it, or unreadable. `kept_aside` is where the replaced state lies, within the project.
    """

    ok: Literal[True] = True
    accepted: bool
    read_only: bool
    project_id: str
    project_revision: int
    present: Relation
    present_revision: int | None
    files: tuple[FileRestore, ...]
    kept_aside: str | None
    next_action: str


def restore(root: Path, request: RestoreRequest) -> RestoreResult:
    """Verify a recovery set and preview what it replaces; with `accept`, put it in place.

    Raise NotFound or InvalidInput for a folder that is none, Storage for one that does not verify, SourceConflict
    for another project's, RuleViolation for links in the way, Io.
    """
    project = Project(root)
    project.refuse_links()
    folder = Path(request.folder).absolute()
    found = _verified(folder)
    relation, revision = _relation(project, folder, found)
    files = tuple(_planned(project, found.files))
    result = RestoreResult(
        accepted=False,
        read_only=True,
        project_id=found.project_id,
        project_revision=found.project_revision,
        present=relation,
        present_revision=revision,
        files=(*files, FileRestore(f".awr/{DATABASE}", "create" if relation == "none" else "replace")),
        kept_aside=None,
        next_action="look at what it replaces, then run it again with --accept",
    )
    if not request.accept:
        return result
    try:
        aside = _put_in_place(project, folder, found, files)
    except OSError as error:
        raise io_error(error) from None
    with project.journal.held_open():
        pass  # brings an older schema up to date
    with project.journal.read() as reader:
        if verify(reader.database).head != found.head:
            raise _not_whole("the restored journal", got="another head than the backup has")
    return msgspec.structs.replace(
        result,
        accepted=True,
        read_only=False,
        kept_aside=aside,
        next_action="run awr source reindex, then awr doctor",
    )


def _verified(folder: Path) -> RecoverySet:
    """Read every byte of a recovery set and return its list."""
    path = folder / LIST
    if not folder.is_dir() or not path.is_file():
        raise NotFound(
            "this is not a backup of AWR's",
            got="no folder" if not folder.is_dir() else f"a folder without {LIST}",
            expected="a folder that awr backup made",
            next_step="check the path",
        )
    try:
        found = msgspec.json.decode(read_location(named_file(path), limit=MAX_LIST_BYTES).data, type=RecoverySet)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidInput(
            f"{LIST} of the backup is not what awr backup writes",
            got="another shape",
            expected="the list of a recovery set of this version",
            next_step="use the AWR that made it, or another backup",
        ) from None
    database = folder / DATABASE
    if database.is_symlink() or not database.is_file() or file_fingerprint(database) != found.database.fingerprint:
        raise _not_whole("the database of the backup", got="another file than the list says, or none")
    for stored in found.files:
        _require_whole(folder, stored)
    with _opened(database) as reader:
        journal = verify(reader.database)
        same = (reader.project_id, reader.project_revision, journal.head) == (
            *(found.project_id, found.project_revision),
            found.head,
        )
    if journal.broken is not None or not same:
        raise _not_whole("the journal of the backup", got="a journal that is not the listed one or does not verify")
    return found


@contextmanager
def _opened(database: Path) -> Iterator[Reader]:
    """Read a copy of a database, so that one of an older schema can be read and the backup stays as it is."""
    with tempfile.TemporaryDirectory(prefix="awr-restore-") as name:
        copy = Path(name) / DATABASE
        shutil.copyfile(database, copy)
        with Journal(copy).held_open():
            pass
        with Journal(copy).read() as reader:
            yield reader


def _require_whole(folder: Path, stored: StoredFile) -> None:
    parts = relative_parts(stored.path)
    if parts[0] == ".awr" and len(parts) == 2 and parts[1].startswith(DATABASE):
        raise _not_whole("the list of the backup", got="a second database")
    try:
        location = Location(folder, (PROJECT, *parts), stored.path)
        whole = read_location(location, limit=MAX_FILE_BYTES).fingerprint == stored.fingerprint
    except AwrError as error:
        raise _not_whole("a file of the backup", got=error.what) from None
    if not whole:
        raise _not_whole("a file of the backup", got="other bytes than the list says")


def _not_whole(what: str, *, got: str) -> Storage:
    return Storage(
        f"{what} is not as it was made; nothing was replaced",
        got=got,
        expected="a backup that verifies",
        next_step="use another backup",
    )


def _relation(project: Project, folder: Path, found: RecoverySet) -> tuple[Relation, int | None]:
    if not project.journal.path.is_file():
        return "none", None
    try:
        with project.journal.read() as present, _opened(folder / DATABASE) as stored:
            if present.project_id != found.project_id:
                raise SourceConflict(
                    "the folder holds another project",
                    got="a backup of one project and the database of another",
                    expected="the project that was backed up, or a folder without one",
                    next_step="restore into an empty folder",
                )
            mine, theirs = present.head, stored.head
            if mine.link == theirs.link:
                return "same", mine.project_revision
            shared = min(mine.position, theirs.position)
            links = [
                reader.database.row("SELECT link FROM events WHERE position = ?", (shared,))
                for reader in (present, stored)
            ]
            if links[0] is None or links[1] is None or links[0]["link"] != links[1]["link"]:
                return "diverged", mine.project_revision
            return ("newer" if mine.position > theirs.position else "older"), mine.project_revision
    except (Storage, NotFound):
        return "unreadable", None


def _planned(project: Project, files: Iterable[StoredFile]) -> Iterable[FileRestore]:
    for stored in files:
        path = _place(project, stored)
        if not path.exists():
            yield FileRestore(stored.path, "create")
        elif path.is_file() and fingerprint(path.read_bytes()) == stored.fingerprint:
            yield FileRestore(stored.path, "unchanged")
        else:
            yield FileRestore(stored.path, "replace")


def _place(project: Project, stored: StoredFile) -> Path:
    """Return where a file goes. Raise RuleViolation where a link or something else stands in the way."""
    parts = relative_parts(stored.path)
    path = project.root
    for number, part in enumerate(parts, start=1):
        path = path / part
        last = number == len(parts)
        if path.is_symlink() or (path.exists() and path.is_file() != last):
            raise RuleViolation(
                "something else stands where a file of the backup belongs",
                got="a symbolic link" if path.is_symlink() else "a file or folder of another kind",
                expected="a real file in real folders, or nothing",
                next_step="move it away, then restore again",
                location={"locator": stored.path},
            )
    return path


def _put_in_place(project: Project, folder: Path, found: RecoverySet, files: tuple[FileRestore, ...]) -> str | None:
    """Stage everything, move the old state aside and the new one in. Return where the old one is, or None."""
    number = new_id(system_clock())
    project.folder.mkdir(exist_ok=True)
    staged, aside = project.folder / f"restoring-{number}", project.folder / f"replaced-{number}"
    staged.mkdir(mode=0o700)
    try:
        wanted = {each.path for each in files if each.action != "unchanged"}
        changed = [stored for stored in found.files if stored.path in wanted]
        for stored in changed:
            _stage(folder, stored, staged / PROJECT / stored.path)
        _stage_database(folder, found.database, staged / DATABASE)
        for stored in changed:
            path = _place(project, stored)
            if path.exists():
                _set_aside(project, path, aside)
            path.parent.mkdir(parents=True, exist_ok=True)
            (staged / PROJECT / stored.path).rename(path)
        for path in map(project.journal.path.with_name, _DATABASE_FILES):
            if path.exists():
                _set_aside(project, path, aside)
        (staged / DATABASE).rename(project.journal.path)
        _sync(project.folder)
    finally:
        shutil.rmtree(staged, ignore_errors=True)
    return str(aside.relative_to(project.root)) if aside.exists() else None


#: The database first: what is left of its log must never meet another database.
_DATABASE_FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal")


def _stage(folder: Path, stored: StoredFile, target: Path) -> None:
    location = Location(folder, (PROJECT, *relative_parts(stored.path)), stored.path)
    if copied_file(location, target, path=stored.path).fingerprint != stored.fingerprint:
        raise _not_whole("a file of the backup", got="bytes that changed while it was restored")
    target.chmod(stored.mode & 0o777)


def _stage_database(folder: Path, stored: StoredFile, target: Path) -> None:
    shutil.copyfile(folder / DATABASE, target)
    with target.open("rb+") as file:
        os.fsync(file.fileno())
    if file_fingerprint(target) != stored.fingerprint:
        raise _not_whole("the database of the backup", got="bytes that changed while it was restored")
    target.chmod(stored.mode & 0o777)


def _set_aside(project: Project, path: Path, aside: Path) -> None:
    target = aside / path.relative_to(project.root)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    ignored = aside / ".gitignore"
    if not ignored.exists():
        ignored.write_text("*\n")
    path.rename(target)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
