"""One project on disk: its root folder, its manifest and its journal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from awr.errors import InvalidInput, NotFound, RuleViolation
from awr.ids import Clock, NewId, new_id, system_clock
from awr.journal.journal import Journal

__all__ = ["Project"]

FOLDER = ".awr"
MANIFEST = "project.toml"
DATABASE = "state.db"
CACHES = "cache"


class Project:
    """A project's places, opened only after they have been found safe to use."""

    def __init__(
        self,
        root: Path,
        *,
        clock: Clock = system_clock,
        make_id: NewId = new_id,
        journal: Journal | None = None,
        keeps_caches: bool = True,
    ) -> None:
        self.root = root
        self.journal = journal or Journal(root / FOLDER / DATABASE, clock=clock, make_id=make_id)
        self._keeps_caches = keeps_caches

    @property
    def folder(self) -> Path:
        """The folder that holds everything of AWR's."""
        return self.root / FOLDER

    @property
    def cache_folder(self) -> Path | None:
        """Where caches lie, or None for a read that leaves no trace."""
        return self.folder / CACHES if self._keeps_caches else None

    @property
    def manifest_path(self) -> Path:
        """The manifest's place."""
        return self.folder / MANIFEST

    @classmethod
    def open(cls, root: Path, *, clock: Clock = system_clock, make_id: NewId = new_id) -> Project:
        """Open an initialized project. Raise NotFound, or RuleViolation where a link stands in for its files."""
        project = cls(existing_folder(root), clock=clock, make_id=make_id)
        project.refuse_links()
        if not project.journal.path.is_file():
            raise NotFound(
                "this folder is not an AWR project",
                expected=f"{FOLDER}/{DATABASE} in the project folder",
                next_step='run awr init --goal "what you want to reach" --accept in it, or give --project PATH',
            )
        return project

    def tagged(self, operation_id: str) -> Project:
        """Return this project for one identified operation, whose events carry its id."""
        return Project(self.root, journal=self.journal.tagged(operation_id))

    @contextmanager
    def snapshot(self) -> Iterator[Project]:
        """Return this project for one read that changes nothing: its journal is a private copy, no cache is kept."""
        copy = self.journal.snapshot()
        try:
            yield Project(self.root, journal=copy, keeps_caches=False)
        finally:
            copy.close()

    def refuse_links(self) -> None:
        """Raise RuleViolation if AWR's folder or database is a symbolic link."""
        for path in (self.folder, self.journal.path, self.manifest_path):
            if path.is_symlink():
                raise RuleViolation(
                    f"{path.relative_to(self.root)} is a symbolic link",
                    got="a symbolic link",
                    expected="a real folder with real files, inside the project",
                    next_step="replace the link by what it points to, or initialize another folder",
                )


def existing_folder(root: Path) -> Path:
    """Return the absolute project folder. Raise NotFound or InvalidInput when it is not one."""
    if not root.exists():
        raise NotFound(
            "the project folder does not exist",
            expected="a folder",
            next_step="check the path given with --project",
        )
    if not root.is_dir():
        raise InvalidInput(
            "the project path is not a folder",
            got="something else than a folder",
            expected="a folder",
            next_step="give the folder that holds the project with --project",
        )
    return root.resolve()
