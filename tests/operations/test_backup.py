"""A backup that proves itself, and a restore that replaces nothing unproven and loses nothing it replaces."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from awr.errors import AwrError, InvalidInput, NotFound, RuleViolation, SourceConflict, Storage
from awr.journal.database import Database
from awr.journal.migrations import SCHEMA_VERSION
from awr.journal.verification import verify
from awr.operations.backup import LIST, BackupRequest, BackupResult, backup
from awr.operations.doctor import DoctorRequest, doctor
from awr.operations.restore import RestoreRequest, RestoreResult, restore
from awr.project import Project
from awr.sources.index import refresh
from tests.support.cli import call, tree
from tests.support.projects import LEDGER, MANIFEST, begin_session, make_project, revision

RESTORE = """
import os
import signal
import sys
from pathlib import Path
from awr.operations.restore import RestoreRequest, restore
root, copy, boundary = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
passed = 0
rename = Path.rename
def counted(self, target):
    global passed
    for step in (lambda: None, lambda: rename(self, target)):
        step()
        passed += 1
        if passed == boundary:
            os.kill(os.getpid(), signal.SIGKILL)
Path.rename = counted
restore(root, RestoreRequest(folder=copy, accept=True))
print(passed)
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = make_project(tmp_path / "project")
    (made.folder / "mutations").mkdir()
    (made.folder / "mutations" / "plan.json").write_text("{}")
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "copy"


def save(project: Project, copy: Path) -> BackupResult:
    return backup(project, BackupRequest(folder=str(copy)))


def put_back(root: Path, copy: Path, *, accept: bool = True) -> RestoreResult:
    return restore(root, RestoreRequest(folder=str(copy), accept=accept))


def actions(result: RestoreResult) -> dict[str, str]:
    return {one.path: one.action for one in result.files}


def ledger(project: Project) -> Path:
    return project.root / "work-ledger.yaml"


def head(project: Project) -> str | None:
    with project.journal.read() as reader:
        found = verify(reader.database)
    assert found.broken is None
    return found.head


def test_a_backup_holds_database_manifest_sources_and_mutations_and_changes_no_revision(
    project: Project, copy: Path
) -> None:
    result = save(project, copy)
    assert (result.project_revision, result.head, result.outside) == (2, head(project), ())
    assert revision(project) == 2
    stored = json.loads((copy / LIST).read_text())
    assert [one["path"] for one in stored["files"]] == [
        *(".awr/mutations/plan.json", ".awr/project.toml"),
        "work-ledger.yaml",
    ]
    assert (copy / "project" / "work-ledger.yaml").read_text() == LEDGER
    assert result.files == 4
    assert copy.stat().st_mode & 0o077 == 0


def test_a_backup_goes_back_into_an_empty_folder_as_it_was(project: Project, copy: Path, tmp_path: Path) -> None:
    begin_session(project)
    ledger(project).chmod(0o640)
    save(project, copy)
    empty = tmp_path / "empty"
    empty.mkdir()
    preview = put_back(empty, copy, accept=False)
    assert (preview.accepted, preview.present, preview.present_revision) == (False, "none", None)
    assert list(empty.iterdir()) == []
    result = put_back(empty, copy)
    assert (result.accepted, result.kept_aside) == (True, None)
    assert set(actions(result).values()) == {"create"}
    restored = Project.open(empty)
    assert (head(restored), revision(restored)) == (head(project), 3)
    assert ledger(restored).read_text() == LEDGER
    assert ledger(restored).stat().st_mode & 0o777 == 0o640
    assert refresh(restored).ok
    assert doctor(restored, DoctorRequest()).findings == ()


def test_a_restore_without_accept_writes_nothing(project: Project, copy: Path) -> None:
    save(project, copy)
    begin_session(project)
    ledger(project).write_text("work_items: []\n")
    before, stored = tree(project.root), tree(copy)
    result = put_back(project.root, copy, accept=False)
    assert (result.present, result.present_revision, result.project_revision) == ("newer", 3, 2)
    assert actions(result) == {
        ".awr/mutations/plan.json": "unchanged",
        ".awr/project.toml": "unchanged",
        "work-ledger.yaml": "replace",
        ".awr/state.db": "replace",
    }
    assert (tree(project.root), tree(copy)) == (before, stored)


def test_what_is_replaced_is_kept_aside_and_is_a_whole_state(project: Project, copy: Path, tmp_path: Path) -> None:
    save(project, copy)
    begin_session(project)
    newest = head(project)
    ledger(project).write_text("work_items: []\n")
    result = put_back(project.root, copy)
    assert revision(project) == 2
    assert ledger(project).read_text() == LEDGER
    assert result.kept_aside is not None
    aside = project.root / result.kept_aside
    assert (aside / "work-ledger.yaml").read_text() == "work_items: []\n"
    old = tmp_path / "old"
    shutil.copytree(aside, old)
    assert head(Project.open(old)) == newest


def test_the_journal_in_place_is_compared_with_the_backup(project: Project, copy: Path, tmp_path: Path) -> None:
    save(project, copy)
    assert put_back(project.root, copy, accept=False).present == "same"
    begin_session(project)
    later = tmp_path / "later"
    save(project, later)
    put_back(project.root, copy)
    assert put_back(project.root, later, accept=False).present == "older"
    begin_session(project, work=None)
    assert put_back(project.root, later, accept=False).present == "diverged"
    project.journal.path.write_bytes(b"no database")
    for path in project.folder.glob("state.db-*"):
        path.unlink()
    assert put_back(project.root, later, accept=False).present == "unreadable"
    put_back(project.root, later)
    assert revision(project) == 3


def test_another_projects_backup_is_refused(project: Project, copy: Path, tmp_path: Path) -> None:
    save(project, copy)
    other = make_project(tmp_path / "other")
    before = tree(other.root)
    with pytest.raises(SourceConflict):
        put_back(other.root, copy)
    assert tree(other.root) == before


def damage_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "name", ["state.db", "project/work-ledger.yaml", "project/.awr/project.toml", "project/.awr/mutations/plan.json"]
)
@pytest.mark.parametrize("how", ["changed", "missing", "link"])
def test_one_wrong_byte_or_file_in_a_backup_stops_it_before_anything_is_replaced(
    project: Project, copy: Path, tmp_path: Path, name: str, how: str
) -> None:
    save(project, copy)
    path = copy / name
    if how == "changed":
        damage_byte(path)
    else:
        data = path.read_bytes()
        path.unlink()
        if how == "link":
            (tmp_path / "elsewhere").write_bytes(data)
            path.symlink_to(tmp_path / "elsewhere")
    before = tree(project.root)
    with pytest.raises(Storage):
        put_back(project.root, copy)
    assert tree(project.root) == before


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ({"head": "0" * 64}, Storage),
        ({"project_revision": 9}, Storage),
        ({"format": "other"}, InvalidInput),
        ({"zebra": 1}, InvalidInput),
        ({"files": [{"path": "../zebra", "mode": 420, "size": 1, "fingerprint": "x"}]}, RuleViolation),
        ({"files": [{"path": "/zebra", "mode": 420, "size": 1, "fingerprint": "x"}]}, RuleViolation),
        ({"files": [{"path": ".awr/state.db-wal", "mode": 420, "size": 1, "fingerprint": "x"}]}, Storage),
    ],
)
def test_a_list_that_was_edited_is_refused(
    project: Project, copy: Path, change: dict[str, object], kind: type[AwrError]
) -> None:
    save(project, copy)
    stored = json.loads((copy / LIST).read_text())
    (copy / LIST).write_text(json.dumps({**stored, **change}))
    before = tree(project.root)
    with pytest.raises(kind) as raised:
        put_back(project.root, copy)
    assert "zebra" not in str(raised.value.report())
    assert tree(project.root) == before


def test_a_folder_that_is_no_backup_is_not_found(project: Project, tmp_path: Path) -> None:
    for folder in (tmp_path / "nowhere", project.root):
        with pytest.raises(NotFound):
            put_back(project.root, folder)


def test_a_broken_journal_is_not_backed_up(project: Project, copy: Path) -> None:
    database = Database(project.journal.path, mode="write", schema_version=SCHEMA_VERSION)
    database.execute("DROP TRIGGER events_refuse_update")
    database.execute("UPDATE events SET summary = 'x' WHERE position = 2")
    database.close()
    with pytest.raises(Storage):
        save(project, copy)
    assert not copy.exists()
    assert list(copy.parent.glob("copy*")) == []


@pytest.mark.parametrize("where", ["full", "file", "own", "root", "link"])
def test_a_backup_wants_a_folder_of_its_own(project: Project, copy: Path, where: str) -> None:
    target = {"own": project.folder / "copy", "root": project.root}.get(where, copy)
    if where == "full":
        copy.mkdir()
        (copy / "mine").write_text("x")
    elif where == "file":
        copy.write_text("x")
    elif where == "link":
        copy.symlink_to(project.root)
    with pytest.raises(InvalidInput):
        save(project, target)


def test_an_empty_folder_and_missing_parents_are_fine(project: Project, copy: Path) -> None:
    copy.mkdir()
    save(project, copy)
    save(project, copy.parent / "a" / "b")
    assert put_back(project.root, copy.parent / "a" / "b", accept=False).present == "same"


def test_a_link_in_the_way_of_a_restore_is_refused(project: Project, copy: Path, tmp_path: Path) -> None:
    save(project, copy)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("theirs")
    ledger(project).unlink()
    ledger(project).symlink_to(elsewhere)
    with pytest.raises(RuleViolation):
        put_back(project.root, copy)
    assert elsewhere.read_text() == "theirs"


def test_sources_in_subfolders_and_outside_are_told_apart(project: Project, copy: Path, tmp_path: Path) -> None:
    (project.root / "docs").mkdir()
    (project.root / "docs" / "RULES.md").write_text("## A\n")
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "GOALS.md").write_text("## B\n")
    project.manifest_path.write_text(
        MANIFEST.replace('name = "demo"', 'name = "demo"\nauthorized_roots = ["../shared"]')
        + '[[sources]]\ndomain = "rules"\npath = "docs/RULES.md"\nadapter = "markdown-rules-v1"\n'
        + f'[[sources]]\ndomain = "goal"\nlocator = "file://{shared}/GOALS.md"\nadapter = "markdown-heading-v1"\n'
    )
    assert refresh(project).ok
    assert save(project, copy).outside == (f"file://{shared}/GOALS.md",)
    shutil.rmtree(project.root / "docs")
    assert actions(put_back(project.root, copy))["docs/RULES.md"] == "create"
    assert (project.root / "docs" / "RULES.md").read_text() == "## A\n"


def test_a_killed_restore_can_be_run_again_and_loses_nothing(project: Project, copy: Path, tmp_path: Path) -> None:
    save(project, copy)
    begin_session(project)
    newest = head(project)
    ledger(project).write_text("work_items: []\n")
    boundary = total = 0
    while boundary == 0 or boundary < total:
        boundary += 1
        root = tmp_path / f"root-{boundary}"
        shutil.copytree(project.root, root)
        command = [sys.executable, "-c", RESTORE, str(root), str(copy), str(boundary)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            total = int(done.stdout)
            continue
        assert done.returncode == -signal.SIGKILL, done.stderr
        total = max(total, boundary + 1)
        put_back(root, copy)
        restored = Project.open(root)
        assert revision(restored) == 2
        assert ledger(restored).read_text() == LEDGER
        kept = [path for path in root.rglob("state.db") if "replaced-" in str(path)]
        assert newest in {_head_of(path, tmp_path / f"kept-{boundary}-{n}") for n, path in enumerate(kept)}
        assert any(path.read_text() == "work_items: []\n" for path in root.glob(".awr/replaced-*/work-ledger.yaml"))
    assert boundary >= 6


def _head_of(database: Path, folder: Path) -> str | None:
    (folder / ".awr").mkdir(parents=True)
    for path in database.parent.glob("state.db*"):
        shutil.copyfile(path, folder / ".awr" / path.name)
    return head(Project.open(folder))


def test_a_person_backs_up_looks_and_restores(
    project: Project, copy: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here = ("--project", project.root)
    assert "verified" in call(capsys, *here, "backup", copy).out
    begin_session(project)
    preview = call(capsys, *here, "restore", copy)
    assert "in place: newer, 3" in preview.out
    assert "Nothing was written" in preview.out
    done = call(capsys, *here, "restore", copy, "--accept")
    assert (done.code, "kept in .awr/replaced-" in done.out) == (0, True)
    assert revision(project) == 2
