"""Making a folder a project: nothing before --accept, everything or nothing after it."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

import pytest

from awr.errors import (
    AwrError,
    InvalidInput,
    Io,
    NotFound,
    RuleViolation,
    SourceConflict,
    SourceUnavailable,
    Storage,
    Unsupported,
)
from awr.journal.verification import verify
from awr.operations.init import InitRequest, InitResult, initialize
from awr.operations.project import StatusRequest, status
from awr.project import Project
from tests.support.cli import AWR, spawn, tree
from tests.support.projects import LEDGER, MANIFEST, revision

IGNORED = [".awr/state.db", ".awr/state.db-shm", ".awr/state.db-wal", ".awr/cache/", ".awr/mutations/"]
SECRET = "sk-ant-0123456789abcdefghij"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def init(root: Path, **fields: Any) -> InitResult:
    return initialize(root, InitRequest(**fields))


def refused(root: Path, error: type[AwrError] | tuple[type[AwrError], ...], **fields: Any) -> AwrError:
    """Try a preview, then to accept; neither may change a byte below the folder."""
    before = tree(root)
    codes = []
    for accept in (False, True):
        with pytest.raises(error) as caught:
            init(root, accept=accept, **fields)
        assert tree(root) == before
        codes.append(caught.value.code)
    assert codes[0] == codes[1]
    found: AwrError = caught.value
    return found


def own_manifest(folder: Path, text: str = MANIFEST, *, name: str = "mine.toml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


# What is shown, and what is written


def test_a_preview_shows_every_byte_and_writes_none(root: Path) -> None:
    (root / "README").write_text("hello")
    before = tree(root)
    preview = init(root, goal="Ship the parser")
    assert tree(root) == before
    assert (preview.accepted, preview.already_initialized) == (False, False)
    assert (preview.project_id, preview.project_revision) == (None, None)
    assert (preview.goals, preview.work_items, preview.sources) == (1, 1, ("work-ledger.yaml",))
    init(root, goal="Ship the parser", accept=True)
    assert {change.path: change.content for change in preview.changes} == {
        name: (root / name).read_text() for name in ("work-ledger.yaml", ".awr/project.toml", ".gitignore")
    }


def test_a_goal_makes_a_ledger_that_is_indexed_at_revision_two(root: Path) -> None:
    result = init(root, goal="Ship the parser", accept=True)
    assert (result.ok, result.accepted, result.project_revision) == (True, True, 2)
    project = Project.open(root)
    found = status(project, StatusRequest(view="full"))
    assert found.project_id == result.project_id
    assert found.project_revision == 2
    assert found.project == {"name": "shop", "external_key": None}
    assert (found.total, found.ready_count, found.suggested_work) == (1, 1, "task-1")
    assert {name for name in tree(root) if name.startswith(".awr/")} == {".awr/project.toml", ".awr/state.db"}


def test_the_only_ledger_is_found_and_left_as_it_is(root: Path) -> None:
    (root / "docs").mkdir()
    (root / "docs" / "plan.yml").write_text(LEDGER)
    (root / "other.yaml").write_text("jobs: [1]")
    result = init(root, accept=True)
    assert (result.sources, result.goals, result.work_items) == (("docs/plan.yml",), 1, 3)
    assert (root / "docs" / "plan.yml").read_text() == LEDGER
    assert not (root / "work-ledger.yaml").exists()
    assert revision(Project.open(root)) == 2


def test_several_ledgers_are_a_conflict_that_names_them(root: Path) -> None:
    (root / "a.yaml").write_text(LEDGER)
    (root / "b.yaml").write_text(LEDGER)
    error = refused(root, SourceConflict)
    assert error.details["candidates"] == ["a.yaml", "b.yaml"]


def test_no_ledger_is_not_found(root: Path) -> None:
    refused(root, NotFound)


def test_a_manifest_that_is_named_is_used(root: Path, tmp_path: Path) -> None:
    (root / "work-ledger.yaml").write_text(LEDGER)
    (root / "second.yaml").write_text(LEDGER)
    result = init(root, manifest=str(own_manifest(tmp_path)), accept=True)
    assert (result.project_revision, result.sources) == (2, ("work-ledger.yaml",))
    assert 'name = "demo"' in (root / ".awr" / "project.toml").read_text()


def test_a_goal_and_a_manifest_together_are_refused(root: Path, tmp_path: Path) -> None:
    refused(root, InvalidInput, goal="Ship it", manifest=str(own_manifest(tmp_path)))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", InvalidInput),
        ("[project", InvalidInput),
        (MANIFEST.replace("name =", "title ="), InvalidInput),
        (MANIFEST + "\n[extra]\n", InvalidInput),
        (MANIFEST.replace("work-ledger.yaml", "../outside.yaml"), RuleViolation),
        (MANIFEST.replace("work-ledger.yaml", "/etc/passwd"), RuleViolation),
        (MANIFEST.replace("yaml-ledger-v1", "markdown-rules-v1"), Unsupported),
        (MANIFEST.replace("work-ledger.yaml", "missing.yaml"), SourceUnavailable),
        (MANIFEST.replace('"demo"', f'"{SECRET}"'), RuleViolation),
        (MANIFEST + "#" * 65536, InvalidInput),
    ],
)
def test_a_bad_manifest_is_refused_before_a_byte_is_written(
    root: Path, tmp_path: Path, text: str, error: type[AwrError]
) -> None:
    (root / "work-ledger.yaml").write_text(LEDGER)
    found = refused(root, error, manifest=str(own_manifest(tmp_path, text)))
    assert SECRET not in str(found.report())


def test_a_manifest_that_is_missing_or_a_folder_is_refused(root: Path, tmp_path: Path) -> None:
    refused(root, NotFound, manifest=str(tmp_path / "nothing.toml"))
    refused(root, InvalidInput, manifest=str(tmp_path))


@pytest.mark.parametrize("goal", ["", "  ", "two\nlines", "x" * 501, "bell \x07", "\udcff"])
def test_a_goal_that_is_no_sentence_is_refused(root: Path, goal: str) -> None:
    refused(root, InvalidInput, goal=goal)


def test_a_secret_in_the_goal_is_refused_without_an_echo(root: Path) -> None:
    assert SECRET not in str(refused(root, RuleViolation, goal=f"use {SECRET}").report())


@pytest.mark.parametrize(
    "goal", ['say "hi": {x} [y] # z', "back\\slash 'quote'", "日本語 🎉", "- x", "x" * 500, "%&*!|>"]
)
def test_any_sentence_becomes_a_ledger_that_says_exactly_that(root: Path, goal: str) -> None:
    assert init(root, goal=goal, accept=True).project_revision == 2
    found = status(Project.open(root), StatusRequest(view="full"))
    assert found.current == ()
    with Project.open(root).journal.read() as reader:
        (row,) = reader.database.rows("SELECT body FROM contents WHERE kind = 'goal'")
    assert json.loads(row["body"])["title"] == goal


# Projects that are there already


def test_a_second_init_writes_nothing_and_says_so(root: Path) -> None:
    first = init(root, goal="Ship it", accept=True)
    before = tree(root)
    for fields in ({"goal": "Ship it"}, {}, {"accept": True}, {"goal": "Another goal", "accept": True}):
        again = init(root, **fields)
        assert (again.already_initialized, again.accepted, again.changes) == (True, False, ())
        assert (again.project_id, again.project_revision) == (first.project_id, 2)
    assert tree(root) == before


def test_a_fresh_clone_has_a_manifest_and_no_database_and_is_used(root: Path, tmp_path: Path) -> None:
    init(root, goal="Ship it", accept=True)
    clone = tmp_path / "clone"
    shutil.copytree(root, clone, ignore=shutil.ignore_patterns("state.db*"))
    preview = init(clone)
    assert (preview.already_initialized, preview.changes) == (False, ())
    result = init(clone, accept=True)
    assert (result.project_revision, result.changes) == (2, ())
    assert result.project_id not in {None, status(Project.open(root), StatusRequest()).project_id}
    assert {name: kind for name, kind in tree(clone).items() if "state.db" not in name} == {
        name: kind for name, kind in tree(root).items() if "state.db" not in name
    }


@pytest.mark.parametrize("initialized", [False, True])
def test_another_manifest_than_the_one_there_is_a_conflict(root: Path, tmp_path: Path, initialized: bool) -> None:
    init(root, goal="Ship it", accept=True)
    if not initialized:
        (root / ".awr" / "state.db").unlink()
    other = own_manifest(tmp_path, MANIFEST.replace('"demo"', '"other"'))
    refused(root, SourceConflict, manifest=str(other))


def test_a_ledger_that_is_there_is_not_overwritten_by_a_goal(root: Path) -> None:
    (root / "work-ledger.yaml").write_text(LEDGER)
    refused(root, SourceConflict, goal="Ship it")
    assert (root / "work-ledger.yaml").read_text() == LEDGER


@pytest.mark.parametrize("exists", [False, True])
def test_a_link_in_the_ledgers_place_is_not_followed(root: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "elsewhere.yaml"
    if exists:
        target.write_text("mine")
    (root / "work-ledger.yaml").symlink_to(target)
    refused(root, SourceConflict, goal="Ship it")
    assert target.exists() == exists


@pytest.mark.parametrize(
    "ledger",
    [
        "work_items: [",
        "work_items:\n  - title: no key\n",
        "work_items:\n  - id: a\n  - id: a\n",
        f"work_items:\n  - id: a\n    summary: {SECRET}\n",
        "",
    ],
    ids=["syntax", "no key", "key twice", "secret", "empty"],
)
def test_a_broken_ledger_is_refused_before_a_byte_is_written(root: Path, tmp_path: Path, ledger: str) -> None:
    (root / "work-ledger.yaml").write_text(ledger)
    found = refused(root, (InvalidInput, SourceConflict, RuleViolation), manifest=str(own_manifest(tmp_path)))
    assert SECRET not in str(found.report())


# Links, foreign files, and folders in the way


@pytest.mark.parametrize("accept", [False, True])
def test_a_linked_folder_is_refused_and_its_target_left_alone(root: Path, tmp_path: Path, accept: bool) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir()
    (root / ".awr").symlink_to(target)
    with pytest.raises(RuleViolation):
        init(root, goal="Ship it", accept=accept)
    assert list(target.iterdir()) == []
    assert [path.name for path in root.iterdir()] == [".awr"]


@pytest.mark.parametrize("name", ["state.db", "project.toml"])
def test_a_linked_file_of_awrs_own_is_refused(root: Path, tmp_path: Path, name: str) -> None:
    (root / ".awr").mkdir()
    (root / ".awr" / name).symlink_to(tmp_path / "elsewhere")
    refused(root, RuleViolation, goal="Ship it")
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("exists", [False, True])
def test_a_linked_gitignore_is_refused_and_its_target_left_alone(root: Path, tmp_path: Path, exists: bool) -> None:
    target = tmp_path / "ignore"
    if exists:
        target.write_text("x\n")
    (root / ".gitignore").symlink_to(target)
    refused(root, RuleViolation, goal="Ship it")
    assert (target.read_text() if exists else target.exists()) in {"x\n", False}


def test_a_file_in_the_place_of_the_folder_is_refused(root: Path) -> None:
    (root / ".awr").write_text("mine")
    refused(root, InvalidInput, goal="Ship it")


def test_a_folder_in_the_place_of_gitignore_is_refused_before_a_byte_is_written(root: Path) -> None:
    (root / ".gitignore").mkdir()
    refused(root, (InvalidInput, Io), goal="Ship it")


@pytest.mark.parametrize("name", ["project.toml", "state.db"])
def test_a_folder_in_the_place_of_a_file_is_refused_before_a_byte_is_written(root: Path, name: str) -> None:
    (root / ".awr" / name).mkdir(parents=True)
    refused(root, AwrError, goal="Ship it")


def test_another_awrs_database_is_left_alone(root: Path) -> None:
    (root / ".awr").mkdir()
    (root / ".awr" / "project.toml").write_text(MANIFEST)
    (root / "work-ledger.yaml").write_text(LEDGER)
    with sqlite3.connect(root / ".awr" / "state.db") as connection:
        connection.execute(f"PRAGMA application_id = {0x41575231}")
        connection.execute("CREATE TABLE projects (id TEXT)")
    connection.close()
    error = refused(root, Storage)
    assert "another AWR" in str(error)


# .gitignore


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"", "\n".join(IGNORED) + "\n"),
        (b"target\n", "target\n" + "\n".join(IGNORED) + "\n"),
        (b"target", "target\n" + "\n".join(IGNORED) + "\n"),
        (
            b".awr/state.db-wal\n",
            ".awr/state.db-wal\n.awr/state.db\n.awr/state.db-shm\n.awr/cache/\n.awr/mutations/\n",
        ),
        ("\n".join(IGNORED).encode(), "\n".join(IGNORED)),
    ],
)
def test_missing_entries_are_appended_once(root: Path, before: bytes, after: str) -> None:
    (root / ".gitignore").write_bytes(before)
    init(root, goal="Ship it", accept=True)
    assert (root / ".gitignore").read_text() == after
    (root / ".awr" / "state.db").unlink()
    init(root, accept=True)
    assert (root / ".gitignore").read_text() == after


def test_the_rest_of_gitignore_is_kept_byte_for_byte(root: Path) -> None:
    odd = b"\xef\xbb\xbf# \xff caf\xe9\r\n*.o\r\n\r\n\x00end"
    (root / ".gitignore").write_bytes(odd)
    (root / ".gitignore").chmod(0o640)
    init(root, goal="Ship it", accept=True)
    found = (root / ".gitignore").read_bytes()
    assert found.startswith(odd + b"\n")
    assert found[len(odd) + 1 :].decode().splitlines() == IGNORED
    assert (root / ".gitignore").stat().st_mode & 0o777 == 0o640


def test_only_what_belongs_to_this_machine_is_ignored(root: Path) -> None:
    init(root, goal="Ship it", accept=True)
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=root, check=True, capture_output=True)
    listed = subprocess.run(["git", "ls-files"], cwd=root, check=True, capture_output=True, text=True).stdout
    assert listed.split() == [".awr/project.toml", ".gitignore", "work-ledger.yaml"]


# Places that cannot be written


def test_a_full_disk_leaves_no_half_made_project(root: Path) -> None:
    def small_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))

    outcome = spawn("--json", "--project", root, "init", "--goal", "Ship it", "--accept", preexec=small_files_only)
    outcome.error("Io")
    assert not (root / ".awr" / "state.db").exists()
    assert [name for name in tree(root) if "state.db" in name] == []
    assert init(root, goal="Ship it", accept=True).project_revision == 2


def test_a_limit_that_no_file_fits_leaves_no_scraps(root: Path) -> None:
    def tiny_files_only() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

    outcome = spawn("--json", "--project", root, "init", "--goal", "Ship it", "--accept", preexec=tiny_files_only)
    outcome.error("Io")
    assert set(tree(root)) <= {".awr"}


def in_namespace(script: str, folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a shell script that may mount, without any privilege of the person who runs the test."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec", script, "sh", str(folder)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=60)


needs_mounts = pytest.mark.skipif(
    shutil.which("unshare") is None
    or subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "mount", "-t", "tmpfs", "none", "/mnt"],
        capture_output=True,
        check=False,
    ).returncode
    != 0,
    reason="NOT TESTED HERE: read-only folders and full disks need unprivileged mounts, which this system refuses",
)


@needs_mounts
def test_a_read_only_folder_is_an_io_error(root: Path) -> None:
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"'
    words = ("--json", "--project", root, "init", "--goal", "Ship it")
    done = in_namespace(script, root, *AWR, *words, "--accept")
    assert done.returncode == 1
    assert done.stdout == ""
    assert '"code":"Io"' in done.stderr
    assert tree(root) == {}
    assert in_namespace(script, root, *AWR, *words).returncode == 0


@needs_mounts
def test_a_project_in_a_read_only_folder_can_be_read_and_not_written(root: Path) -> None:
    init(root, goal="Ship it", accept=True)
    script = 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"; shift; exec "$@"'
    for words in (("session", "list"), ("status",), ("event", "history"), ("journal", "verify"), ("source", "list")):
        done = in_namespace(script, root, *AWR, "--json", "--project", root, *words)
        assert done.returncode == 0, (words, done.stderr)
    note = ("event", "append", "--event-type", "note.added", "--summary", "x", "--expected-revision", "2")
    done = in_namespace(script, root, *AWR, "--json", "--project", root, *note)
    assert (done.returncode, done.stdout) == (1, "")
    assert '"code":"Io"' in done.stderr


@needs_mounts
@pytest.mark.parametrize("kilobytes", [8, 16, 32, 48, 64, 96, 128])
def test_a_disk_that_is_really_full_gives_io_and_leaves_no_database(root: Path, kilobytes: int) -> None:
    script = f'mount -t tmpfs -o size={kilobytes}k none "$1"; place=$1; shift; "$@" && echo done; ls "$place"/.awr'
    done = in_namespace(script, root, *AWR, "--json", "--project", root, "init", "--goal", "Ship it", "--accept")
    assert '"code":"Io"' in done.stderr, done
    assert "done" not in done.stdout
    assert "state.db" not in done.stdout


# Two at once


def test_two_inits_at_once_make_exactly_one_project(root: Path) -> None:
    command = [*AWR, "--json", "--project", str(root), "init", "--goal", "Ship it", "--accept"]
    runs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
        for _ in range(4)
    ]
    codes = []
    for process in runs:
        _, errors = process.communicate(timeout=120)
        codes.append(process.returncode)
        assert process.returncode == 0 or '"code":"SourceConflict"' in errors, errors
    assert codes.count(0) >= 1
    project = Project.open(root)
    with project.journal.read() as reader:
        assert verify(reader.database).broken is None
        found = reader.database.rows("SELECT event_type FROM events ORDER BY position")
    assert [row["event_type"] for row in found] == ["project.initialized", "source.registered", "source.projected"]
    assert {name for name in tree(root) if name.startswith(".awr/")} == {".awr/project.toml", ".awr/state.db"}
    assert status(project, StatusRequest()).project_revision == 2


def test_two_inits_that_planned_at_the_same_moment_do_not_ignore_twice(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one has planned before the faster one wrote: the real order of a race, made to happen here."""
    from awr.operations import init as module

    write = module._write
    raced: list[bool] = []

    def slower(project: Project, plan: Any) -> None:
        if not raced:
            raced.append(True)
            initialize(root, InitRequest(goal="Ship it", accept=True))
        write(project, plan)

    monkeypatch.setattr(module, "_write", slower)
    with pytest.raises(SourceConflict):
        initialize(root, InitRequest(goal="Ship it", accept=True))
    assert revision(Project.open(root)) == 2
    assert (root / ".gitignore").read_text().splitlines() == IGNORED


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path, code in ((tmp_path / "nothing", "NotFound"), (tmp_path / "file", "InvalidInput")):
        spawn("--json", "--project", path, "init", "--goal", "x", "--accept").error(code)
