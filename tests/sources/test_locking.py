"""Locks that wait for their turn. Those that refuse at once are tested with the sources they keep."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from awr.errors import Io, Storage
from awr.project import Project
from awr.sources.locking import held_lock, private_folder
from tests.support.projects import make_project

BUSY = Storage("busy")
HOLD = """
import sys
from pathlib import Path
from awr.errors import Storage
from awr.sources.locking import held_lock
with held_lock(Path(sys.argv[1]), busy=Storage("busy")):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p")


def test_a_patient_writer_gets_its_turn_when_the_holder_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "one.lock"
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(Storage, match="busy"), held_lock(path, busy=BUSY, patience_s=0.03):
            pass
        holder.kill()
        with held_lock(path, busy=BUSY, patience_s=60):
            pass
    assert path.exists()


def test_a_lock_is_free_again_when_its_block_fails(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(KeyError), held_lock(tmp_path / "one.lock", busy=BUSY):
            raise KeyError


def test_a_lock_that_is_a_link_is_refused_and_its_target_not_made(tmp_path: Path) -> None:
    (tmp_path / "one.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(Io), held_lock(tmp_path / "one.lock", busy=BUSY):
        pass
    assert not (tmp_path / "victim").exists()


def test_a_private_folder_is_made_once_and_kept_out_of_version_control(project: Project) -> None:
    folder = private_folder(project, "clients")
    assert private_folder(project, "clients") == folder == project.folder / "clients"
    assert (folder / ".gitignore").read_text() == "*\n"
