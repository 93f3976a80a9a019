"""Writers that are killed for real, at each boundary, and writers that meet."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from awr.journal.verification import verify
from awr.operations.journal import RebuildRequest, rebuild
from awr.project import Project
from tests.support.projects import begin_session, make_project, revision

OBSERVE = """
import sys
from pathlib import Path
from awr.operations.compaction import ObserveRequest, observe
from awr.project import Project
from tests.domain.test_compaction import observation
from tests.support.killing import die_at
root, session, boundary = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
project = Project.open(root)
request = ObserveRequest(session=session, expected_revision=3, observation=observation())
count = die_at(boundary)
observe(project, request)
print(count())
"""

INITIALIZE = """
import sys
from pathlib import Path
from awr.operations.init import InitRequest, initialize
from tests.support.killing import die_at
root, boundary = Path(sys.argv[1]), int(sys.argv[2])
count = die_at(boundary)
initialize(root, InitRequest(goal="Ship it", accept=True))
print(count())
"""

APPEND = """
import sys
from pathlib import Path
from awr.errors import RevisionConflict
from awr.operations.event import AppendRequest, append
from awr.project import Project
root, name, number = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
project = Project.open(root)
written = conflicts = 0
while written < number:
    with project.journal.read() as reader:
        now = reader.project_revision
    request = AppendRequest(event_type="note.added", summary=f"{name} {written}", expected_revision=now)
    try:
        append(project, request)
        written += 1
    except RevisionConflict:
        conflicts += 1
print(conflicts)
"""


def child(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def test_a_writer_killed_at_any_boundary_leaves_all_or_nothing(tmp_path: Path) -> None:
    boundary = killed = 0
    while True:
        boundary += 1
        folder = tmp_path / f"run-{boundary}"
        copy = make_project(folder)
        session = begin_session(copy)
        done = child(OBSERVE, folder, session, boundary)
        now = revision(copy)
        with copy.journal.read() as reader:
            assert verify(reader.database).broken is None
            recorded = reader.database.rows("SELECT * FROM compactions")
        assert now in {3, 4}
        assert len(recorded) == now - 3
        assert set(rebuild(copy, RebuildRequest()).rows_corrected.values()) == {0}
        if done.returncode == 0:
            assert now == 4
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
    # BEGIN, the project, the event, its projection and COMMIT: before and after each.
    assert killed == int(done.stdout) == 10


def test_a_killed_init_leaves_no_half_made_project_and_can_be_repeated(tmp_path: Path) -> None:
    boundary = killed = 0
    while True:
        boundary += 7
        root = tmp_path / f"run-{boundary}"
        root.mkdir()
        done = child(INITIALIZE, root, boundary)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        database = root / ".awr" / "state.db"
        if database.exists():
            with Project.open(root).journal.read() as reader:
                assert verify(reader.database).broken is None
        again = child(INITIALIZE, root, 0)
        assert again.returncode == 0, again.stderr
        assert revision(Project.open(root)) in {1, 2}
    assert killed >= 5


def test_two_processes_appending_at_once_lose_nothing_and_conflict_cleanly(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    command = [sys.executable, "-c", APPEND, str(project.root)]
    writers = [
        subprocess.Popen(
            [*command, name, "40"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for name in ("one", "two")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    with project.journal.read() as reader:
        rows = reader.database.rows("SELECT summary FROM events WHERE event_type = 'note.added'")
        found = verify(reader.database)
    assert sorted(row["summary"] for row in rows) == sorted(
        f"{name} {n}" for name in ("one", "two") for n in range(40)
    )
    assert found.broken is None
    assert found.project_revision == 2 + 80
