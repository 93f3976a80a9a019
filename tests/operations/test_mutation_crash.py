"""Writers of a source that are killed for real, at each step; what is left, and how it is finished."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

import msgspec
import pytest

from awr.errors import InvalidTransition, MutationIncomplete
from awr.journal.proposals import pending_proposals
from awr.journal.verification import verify
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.proposal import RecoverRequest, recover
from awr.operations.transition import ProgressRequest, progress
from awr.project import Project
from tests.support.projects import begin_session, make_project, revision

PROGRESS = """
import sys
from pathlib import Path
from awr.operations.transition import ProgressRequest, progress
from awr.project import Project
from tests.support.boundaries import die_at_step
root, session, boundary = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
project = Project.open(root)
request = ProgressRequest(
    work="parse", session=session, reason="begun", next_action="Write the lexer", expected_revision=3
)
count = die_at_step(boundary)
progress(project, request)
print(count())
"""

RECOVER = """
import sys
from pathlib import Path
from awr.operations.proposal import RecoverRequest, recover
from awr.project import Project
from tests.support.boundaries import die_at_step
root, proposal, boundary = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
project = Project.open(root)
count = die_at_step(boundary)
recover(project, RecoverRequest(proposal=proposal))
print(count())
"""


#: A little before the commit that begins the write; a writer killed earlier leaves nothing to find.
FIRST = 24


def child(script: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2])


def ledger(project: Project) -> str:
    return (project.root / "work-ledger.yaml").read_text()


def pending(project: Project) -> list[str]:
    with project.journal.read() as reader:
        return [proposal.id for proposal in pending_proposals(reader)]


def require_sound(project: Project) -> None:
    with project.journal.read() as reader:
        assert verify(reader.database).broken is None
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


def event_types(project: Project) -> Counter[str]:
    with project.journal.read() as reader:
        return Counter(row["event_type"] for row in reader.database.rows("SELECT event_type FROM events"))


def require_done(project: Project, after: str) -> None:
    assert ledger(project) == after
    assert pending(project) == []
    found = event_types(project)
    assert (found["work.progressed"], found["proposal.applied"], found["proposal.created"]) == (1, 1, 1)
    assert list(project.root.glob(".work-ledger*")) == []
    require_sound(project)


def after_of(tmp_path: Path) -> tuple[str, str]:
    """Return the ledger before the action and after it."""
    project = make_project(tmp_path / "example")
    before = ledger(project)
    session = begin_session(project, claim=True)
    child(PROGRESS, project.root, session, 0)
    return before, ledger(project)


def test_a_writer_killed_at_any_step_leaves_a_whole_source_and_an_attempt_that_can_be_finished(
    tmp_path: Path,
) -> None:
    before, after = after_of(tmp_path)
    assert before != after
    boundary = killed = finished = untouched = complete = 0
    while True:
        boundary += 1
        project = make_project(tmp_path / f"run-{boundary}")
        session = begin_session(project, claim=True)
        done = child(PROGRESS, project.root, session, boundary)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        require_sound(project)
        assert ledger(project) in {before, after}
        left = pending(project)
        if left:
            report = recover(project, RecoverRequest(proposal=left[0]))
            assert (report.write_outcome, report.proposal.status) == ("recovered", "applied")
            require_done(project, after)
            finished += 1
        elif event_types(project)["work.progressed"]:
            require_done(project, after)
            complete += 1
        else:
            assert ledger(project) == before
            assert revision(project) == 3
            assert event_types(project)["proposal.created"] == 0
            untouched += 1
        if left:
            with pytest.raises(InvalidTransition):
                recover(project, RecoverRequest(proposal=left[0]))
    assert killed == int(done.stdout)
    assert min(untouched, finished) >= 12
    assert complete >= 1


def test_a_recovery_killed_at_any_step_can_be_repeated_until_it_is_done(tmp_path: Path) -> None:
    before, after = after_of(tmp_path)
    boundary = killed = 0
    while True:
        boundary += 2
        project = make_project(tmp_path / f"run-{boundary}")
        begun_and_left(project)
        left = pending(project)[0]
        assert ledger(project) == before
        done = child(RECOVER, project.root, left, boundary)
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        assert ledger(project) in {before, after}
        if pending(project):
            assert recover(project, RecoverRequest(proposal=left)).write_outcome == "recovered"
        require_done(project, after)
    assert killed >= 6


def test_an_unfinished_write_keeps_others_from_the_same_source_until_it_is_finished(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    session = begun_and_left(project)
    request = ProgressRequest(
        work="parse", session=session, reason="again", next_action="Go on", expected_revision=revision(project)
    )
    with pytest.raises(MutationIncomplete) as caught:
        progress(project, request)
    left = pending(project)[0]
    assert caught.value.details["proposal_id"] == left
    recover(project, RecoverRequest(proposal=left))
    again = progress(project, msgspec.structs.replace(request, expected_revision=revision(project)))
    assert again.proposal.status == "applied"


def begun_and_left(project: Project) -> str:
    """Kill a writer right behind the commit that begins its write. Return its session."""
    session = begin_session(project, claim=True)
    for boundary in count(FIRST):
        child(PROGRESS, project.root, session, boundary)
        if pending(project):
            break
    return session
