"""Making a folder a project: first shown, then written, and never half of it."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from awr.errors import InvalidInput, RuleViolation, SourceConflict, SourceStale, io_error
from awr.ids import new_id, system_clock
from awr.journal.journal import Journal
from awr.operations.fields import described
from awr.project import Project
from awr.sources.discovery import find_ledger, ledger_manifest, minimal_ledger
from awr.sources.files import read_source
from awr.sources.index import parse_mapping, refresh
from awr.sources.manifest import Manifest, read_manifest, render_manifest

__all__ = ["FileChange", "InitRequest", "InitResult", "initialize"]

LEDGER_NAME = "work-ledger.yaml"
#: What belongs to this machine only.
_IGNORED = (".awr/state.db", ".awr/state.db-shm", ".awr/state.db-wal", ".awr/cache/", ".awr/mutations/")


class InitRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    accept: Annotated[bool, described("Write what the preview shows, and index it.")] = False
    manifest: Annotated[str | None, described("A manifest of your own to use.")] = None
    goal: Annotated[str | None, described("Begin with this goal in a new, minimal ledger.")] = None


class FileChange(msgspec.Struct, frozen=True):
    """One file that is written: its path in the project, and its new content or the lines added at its end."""

    path: str
    action: Literal["create", "append"]
    content: str


class InitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The preview, or with `accepted` what was written. `project_id` is null until then."""

    ok: bool = True
    accepted: bool
    already_initialized: bool
    project_id: str | None
    project_revision: int | None
    changes: tuple[FileChange, ...]
    sources: tuple[str, ...]
    goals: int
    work_items: int
    next_action: str


class _Plan(msgspec.Struct, frozen=True):
    manifest: Manifest
    changes: tuple[FileChange, ...]
    goals: int
    work_items: int


def initialize(root: Path, request: InitRequest) -> InitResult:
    """Preview a project in this folder; with `accept`, write and index it. Everything is checked before a byte is.

    Raise InvalidInput, NotFound, RuleViolation, SourceConflict, SourceUnavailable, Unsupported or Io.
    """
    project = Project(root)
    project.refuse_links()
    _require_places(project)
    exists = project.journal.path.is_file()
    plan = _planned(project, request, exists=exists)
    if exists or not request.accept:
        return _result(plan, exists=exists, project=project)
    try:
        _write(project, plan)
    except OSError as error:
        raise io_error(error) from error
    report = refresh(project)
    if not report.ok:
        raise SourceStale(
            "the project was made, and a source changed before it could be indexed",
            next_step="run awr source reindex",
        )
    return msgspec.structs.replace(
        _result(plan, exists=False, project=project),
        accepted=True,
        project_id=report.project_id,
        project_revision=report.project_revision,
        next_action="run awr status, then start a session for the work",
    )


def _require_places(project: Project) -> None:
    """Refuse before a byte is written when something else stands where AWR's folder and files belong."""
    if project.folder.exists() and not project.folder.is_dir():
        raise InvalidInput(
            "there is a file where AWR's folder belongs",
            got="a file named .awr",
            expected="no .awr, or a folder",
            next_step="move the file away",
        )
    for path in (project.manifest_path, project.journal.path, project.root / ".gitignore"):
        if path.exists() and not path.is_file():
            raise InvalidInput(
                f"{path.relative_to(project.root)} is not a file",
                got="a folder" if path.is_dir() else "a device or pipe",
                expected="a file, or nothing",
                next_step="move it away",
            )


def _planned(project: Project, request: InitRequest, *, exists: bool) -> _Plan:
    if request.goal is not None and request.manifest is not None:
        raise InvalidInput(
            "a goal and a manifest both say where the work is written down",
            expected="one of them",
            next_step="leave one out",
        )
    existing = read_manifest(project.manifest_path) if project.manifest_path.exists() else None
    ledger: str | None = None
    if request.manifest is not None:
        manifest = read_manifest(Path(request.manifest))
    elif request.goal is not None:
        manifest = ledger_manifest(_name_of(project.root), path=LEDGER_NAME)
        ledger = minimal_ledger(request.goal)
    elif existing is not None:
        manifest = existing
    else:
        manifest = ledger_manifest(_name_of(project.root), path=find_ledger(project.root))
    if existing is not None and existing != manifest:
        raise SourceConflict(
            "this project has another manifest already; it is left as it is",
            got="a different mapping of sources",
            expected="the mapping in .awr/project.toml",
            next_step="edit .awr/project.toml and run awr source reindex",
        )
    changes = () if exists else tuple(_changes(project, manifest, ledger))
    return _plan_of(project, manifest, changes, ledger=None if exists else ledger)


def _changes(project: Project, manifest: Manifest, ledger: str | None) -> list[FileChange]:
    found = []
    ledger_path = project.root / LEDGER_NAME
    if ledger is not None and not _has_exactly(ledger_path, ledger):
        if ledger_path.exists() or ledger_path.is_symlink():
            raise SourceConflict(
                f"{LEDGER_NAME} exists already; it is left as it is",
                expected="no file of that name",
                next_step="run awr init without --goal to use it, or move it away",
            )
        found.append(FileChange(LEDGER_NAME, "create", ledger))
    if not project.manifest_path.exists():
        found.append(FileChange(".awr/project.toml", "create", render_manifest(manifest)))
    missing = _missing_ignores(project.root / ".gitignore")
    if missing:
        found.append(FileChange(".gitignore", "append", missing))
    return found


def _has_exactly(path: Path, text: str) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == text.encode()


def _missing_ignores(path: Path) -> str:
    if path.is_symlink():
        raise RuleViolation(
            ".gitignore is a symbolic link",
            got="a symbolic link",
            expected="a real file, or none",
            next_step="replace the link by what it points to",
        )
    present = path.read_text(errors="replace") if path.is_file() else ""
    missing = [line for line in _IGNORED if line not in present.splitlines()]
    lead = "\n" if present and not present.endswith("\n") and missing else ""
    return lead + "".join(f"{line}\n" for line in missing)


def _plan_of(project: Project, manifest: Manifest, changes: tuple[FileChange, ...], *, ledger: str | None) -> _Plan:
    goals = work_items = 0
    for mapping in manifest.sources:
        written = ledger is not None and mapping.location == LEDGER_NAME
        data = (
            (ledger or "").encode()
            if written
            else read_source(project.root, mapping, authorized_roots=manifest.authorized_roots)
        )
        parsed = parse_mapping(mapping, data)
        goals += len(parsed.goals)
        work_items += len(parsed.work_items)
    return _Plan(manifest=manifest, changes=changes, goals=goals, work_items=work_items)


def _result(plan: _Plan, *, exists: bool, project: Project) -> InitResult:
    project_id = revision = None
    if exists:
        with project.journal.read() as reader:
            project_id, revision = reader.project_id, reader.project_revision
    return InitResult(
        accepted=False,
        already_initialized=exists,
        project_id=project_id,
        project_revision=revision,
        changes=plan.changes,
        sources=tuple(mapping.location for mapping in plan.manifest.sources),
        goals=plan.goals,
        work_items=plan.work_items,
        next_action="run awr status" if exists else "look at the files above, then run it again with --accept",
    )


def _write(project: Project, plan: _Plan) -> None:
    project.folder.mkdir(exist_ok=True)
    for change in plan.changes:
        path = project.root / change.path
        if change.action == "create":
            _replace(path, change.content.encode())
        else:
            # Another init may have added its lines since the preview.
            before = path.read_bytes() if path.exists() else b""
            _replace(path, before + _missing_ignores(path).encode())
    _create_database(project, plan.manifest)


def _replace(path: Path, data: bytes) -> None:
    """Write a file so that it is there whole or not at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _create_database(project: Project, manifest: Manifest) -> None:
    """Make the database under another name, so that a project with a half-made one never exists."""
    target = project.journal.path
    unfinished = target.with_name(f"{target.name}.{new_id(system_clock())}")
    try:
        Journal(unfinished).create(name=manifest.name, external_key=manifest.external_key)
        try:
            os.link(unfinished, target)
        except FileExistsError:
            raise SourceConflict(
                "another process made this project at the same moment",
                expected="one awr init at a time",
                next_step="run awr status",
            ) from None
    finally:
        for path in target.parent.glob(f"{unfinished.name}*"):
            path.unlink()


def _name_of(root: Path) -> str:
    return root.name if root.name.isprintable() and root.name.strip() else "project"
