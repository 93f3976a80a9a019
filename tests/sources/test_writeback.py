"""The lock, the snapshots and the replacement of a source file."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from awr.errors import Io, MutationConflict, RuleViolation
from awr.project import Project
from awr.sources.files import Location, fingerprint
from awr.sources.writeback import compare, install, recovery_folder, source_lock, stage, staged_after
from tests.support.projects import make_project

HOLD = """
import sys
from pathlib import Path
from awr.project import Project
from awr.sources.writeback import source_lock
with source_lock(Project.open(Path(sys.argv[1])), "S"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


def place(project: Project, *parts: str) -> Location:
    return Location(project.root, parts or ("work-ledger.yaml",), "/".join(parts))


def test_a_lock_that_another_process_holds_is_a_conflict_and_is_free_again_when_it_dies(project: Project) -> None:
    command = [sys.executable, "-c", HOLD, str(project.root)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(MutationConflict), source_lock(project, "S"):
            pass
        with source_lock(project, "OTHER"):
            pass
        holder.kill()
    with source_lock(project, "S"), pytest.raises(MutationConflict), source_lock(project, "S"):
        pass


def test_locks_and_snapshots_are_kept_out_of_version_control(project: Project) -> None:
    with source_lock(project, "S"):
        pass
    assert (project.folder / "mutations" / ".gitignore").read_text() == "*\n"
    assert (project.folder / "mutations" / "S.lock").exists()


def test_a_folder_of_mutations_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (project.folder / "mutations").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuleViolation), source_lock(project, "S"):
        pass
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_lock_file_that_is_a_link_is_refused(project: Project, tmp_path: Path) -> None:
    with source_lock(project, "S"):
        pass
    (project.folder / "mutations" / "T.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(Io), source_lock(project, "T"):
        pass
    assert not (tmp_path / "victim").exists()


def test_snapshots_are_read_back_by_their_hash_and_a_changed_one_is_a_conflict(project: Project) -> None:
    stage(project, "P", before=b"one", after=b"two", plan={"version": 1})
    folder = project.root / recovery_folder("P")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "before.yaml": b"one",
        "after.yaml": b"two",
        "plan.json": b'{"version":1}',
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert staged_after(project, "P", wanted=fingerprint(b"two")) == b"two"
    (folder / "after.yaml").write_bytes(b"three")
    with pytest.raises(MutationConflict):
        staged_after(project, "P", wanted=fingerprint(b"two"))
    (folder / "after.yaml").unlink()
    with pytest.raises(MutationConflict):
        staged_after(project, "P", wanted=fingerprint(b"two"))


def test_a_source_is_replaced_whole_with_its_permissions(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    path.chmod(0o640)
    before = fingerprint(path.read_bytes())
    (project.root / ".work-ledger.yaml.P").write_text("left behind")
    install(place(project), b"new", before=before, proposal_id="P")
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert not (project.root / ".work-ledger.yaml.P").exists()
    assert compare(place(project), before=before, after=fingerprint(b"new")) == "equal_to_after"
    assert compare(place(project), before=fingerprint(b"new"), after=None) == "equal_to_before"
    assert compare(place(project), before=before, after=before) == "changed"
    assert compare(place(project, "none.yaml"), before=before, after=before) == "unavailable"


def test_a_source_that_changed_meanwhile_is_left_as_it_is(project: Project) -> None:
    path = project.root / "work-ledger.yaml"
    before = fingerprint(path.read_bytes())
    path.write_text("somebody else's")
    with pytest.raises(MutationConflict):
        install(place(project), b"new", before=before, proposal_id="P")
    assert path.read_text() == "somebody else's"
    assert [path.name for path in project.root.iterdir() if "P" in path.name] == []


def test_a_link_on_the_way_to_a_source_is_refused(project: Project, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir()
    (real / "l.yaml").write_text("x")
    (project.root / "sub").symlink_to(real)
    with pytest.raises((RuleViolation, Io)):
        install(place(project, "sub", "l.yaml"), b"new", before=fingerprint(b"x"), proposal_id="P")
    assert (real / "l.yaml").read_text() == "x"


def test_a_full_disk_leaves_the_source_alone_and_nothing_beside_it(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = (project.root / "work-ledger.yaml").read_bytes()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(Io):
        install(place(project), b"new", before=fingerprint(before), proposal_id="P")
    assert (project.root / "work-ledger.yaml").read_bytes() == before
    assert [path.name for path in project.root.iterdir() if "P" in path.name] == []
