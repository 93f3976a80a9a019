"""Projections are what the journal says, whatever the history was."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from awr.errors import AwrError
from awr.journal import projections
from awr.journal.projections import PROJECTED_TABLES, snapshot
from awr.operations.binding import BindRequest, bind
from awr.operations.checkpoint import WaitsRequest, waits
from awr.operations.claim import ClaimRequest, HandoffRequest, ReleaseRequest, claim, handoff, release
from awr.operations.client import ProgressRequest as SayRequest
from awr.operations.client import progress as say_progress
from awr.operations.compaction import DeferRequest, InspectRequest, ObserveRequest, defer, inspect, observe
from awr.operations.evidence import AddRequest, add
from awr.operations.execution import ListRequest as ExecutionsRequest
from awr.operations.execution import listing as executions
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.management import AssessRequest, ManageRequest, assess, manage
from awr.operations.resume import ResumeRequest, resume
from awr.operations.session import EndRequest, ListRequest, StartRequest, end, listing, start
from awr.operations.transition import BlockRequest, ProgressRequest, block, progress
from awr.project import Project
from awr.sources.index import refresh
from tests.domain.test_compaction import observation
from tests.domain.test_management import SIMPLE
from tests.operations.test_checkpoint import answer, ask, save
from tests.operations.test_execution import announce, say
from tests.support.projects import LEDGER, Clock, make_project, revision

EDITED = LEDGER.replace("Parse input", "Parse every input").replace("  - id: release", "  - id: ship")

steps = st.lists(
    st.tuples(
        st.sampled_from(
            [
                *("start", "claim", "lapsing_claim", "end", "observe", "defer", "edit", "restore", "break", "time"),
                *("take", "release", "handoff", "checkpoint", "wait", "reply", "resume"),
                *("register", "report", "manage", "progress", "block", "evidence", "bind", "say"),
            ]
        ),
        st.integers(0, 3),
    ),
    min_size=1,
    max_size=20,
)


def play(project: Project, clock: Clock, step: str, choice: int) -> None:
    """Do one random thing. What the rules refuse is part of a history as well."""
    sessions = listing(project, ListRequest()).sessions
    chosen = sessions[choice % len(sessions)].id if sessions else "none"
    now = revision(project)
    ledger = project.root / "work-ledger.yaml"
    try:
        if step in {"start", "claim", "lapsing_claim"}:
            start(
                project,
                StartRequest(
                    agent=f"agent-{choice}",
                    provider="p",
                    model="m",
                    work="parse",
                    conversation=f"conversation-{now}" if choice % 2 else None,
                    claim=step != "start",
                    ttl_ms=1000 if step == "lapsing_claim" else None,
                    expected_revision=now,
                ),
            )
        elif step == "end":
            end(project, EndRequest(session=chosen, expected_revision=now, outcome="interrupted"))
        elif step == "observe":
            value = observation(compaction_id=f"c{choice}", sequence=choice + 1)
            observe(project, ObserveRequest(session=chosen, expected_revision=now, observation=value))
        elif step == "defer":
            latest = inspect(project, InspectRequest(session=chosen)).observation_event_id
            defer(
                project,
                DeferRequest(session=chosen, expected_revision=now, observation_event_id=latest or "none"),
            )
        elif step == "time":
            clock.now += 1500
        elif step in {"edit", "restore", "break"}:
            ledger.write_text({"edit": EDITED, "restore": LEDGER, "break": "work_items: [oh: {"}[step])
            refresh(project)
        else:
            play_on(project, step, chosen, choice)
    except AwrError:
        assert revision(project) >= now


def play_on(project: Project, step: str, session: str, choice: int) -> None:
    """Do one of the things that sessions do with their work."""
    now = revision(project)
    if step == "take":
        claim(project, ClaimRequest(work="parse", session=session, expected_revision=now))
    elif step == "release":
        release(project, ReleaseRequest(work="parse", session=session, expected_revision=now))
    elif step == "handoff":
        others = [one.id for one in listing(project, ListRequest(active=True)).sessions if one.id != session]
        to = others[0] if others and choice % 2 else None
        handoff(project, HandoffRequest(work="parse", session=session, to_session=to, expected_revision=now))
    elif step == "checkpoint":
        save(project, session, open_loops=("one",) * choice)
    elif step == "wait":
        ask(project, session)
    elif step == "reply":
        found = waits(project, WaitsRequest(session=session)).waits
        answer(project, found[0].id if found else "none", cancel=choice == 0)
    elif step == "resume":
        request = ResumeRequest(
            session=session, agent=f"agent-{choice}", provider="p", model="m", expected_revision=now
        )
        resume(project, request)
    elif step == "register":
        announce(project, session, operation_key=f"k{choice}")
    elif step == "report":
        found_executions = executions(project, ExecutionsRequest()).executions
        target = found_executions[0].execution.id if found_executions else "none"
        say(project, target, "started" if choice % 2 else "succeeded", key=f"r{choice}")
    elif step == "manage":
        fingerprint = assess(project, AssessRequest(work="parse")).assessment.contract_fingerprint
        observed = ManageRequest(
            work="parse",
            session=session,
            request_key=f"m{choice}",
            contract_fingerprint=fingerprint,
            observation=SIMPLE,
            expected_revision=now,
        )
        manage(project, observed)
    elif step == "progress":
        progress(
            project,
            ProgressRequest(work="parse", session=session, reason="r", next_action="n", expected_revision=now),
        )
    elif step == "block":
        block(project, BlockRequest(work="parse", session=session, reason="r", blocker="b", expected_revision=now))
    elif step == "bind":
        selected = ({}, {"session": session}, {"from_session": session}, {})[choice]
        bind(project, BindRequest(host="codex", external_session=f"c{choice % 2}", work="parse", **selected))
    elif step == "say":
        loops = ("one",) * (choice - 1) if choice else ()
        said = SayRequest(
            host="codex",
            external_session=f"c{choice % 2}",
            next_action=f"n{choice}",
            digest="d" if choice % 2 else None,
            open_loops=loops,
            clear_open_loops=not choice,
        )
        say_progress(project, said)
    else:
        add(
            project,
            AddRequest(
                external_key=f"e{choice}",
                evidence_type="note",
                level="designed",
                summary="s",
                locator="notes.md",
                scope=("parser",),
                work="parse",
                expected_revision=now,
            ),
        )


@given(history=steps)
@settings(max_examples=40, deadline=None)
def test_rebuilding_from_any_history_gives_the_same_rows(history: list[tuple[str, int]]) -> None:
    with TemporaryDirectory() as name:
        clock = Clock()
        project = make_project(Path(name) / "p", clock=clock)
        manifest = project.manifest_path
        # A resume needs complete context, and this ledger has no rules.
        manifest.write_text(manifest.read_text().replace('"demo"', '"demo"\ncontext_profile = "minimal"'))
        for step, choice in history:
            play(project, clock, step, choice)
        with project.journal.read() as reader:
            before = snapshot(reader.database)
        result = rebuild(project, RebuildRequest())
        assert result.rows_corrected == dict.fromkeys(PROJECTED_TABLES, 0)
        with project.journal.read() as reader:
            assert snapshot(reader.database) == before


def test_rebuilding_corrects_rows_that_somebody_changed(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    start(project, StartRequest(agent="a", provider="p", model="m", work="parse", expected_revision=2))
    with project.journal.read() as reader:
        before = snapshot(reader.database)
    connection = sqlite3.connect(project.journal.path, isolation_level=None)
    connection.execute("UPDATE sessions SET status = 'ended', model = 'forged'")
    connection.execute("DELETE FROM entities WHERE external_key = 'parse'")
    connection.close()
    corrected = rebuild(project, RebuildRequest()).rows_corrected
    assert corrected["sessions"] == 2
    assert corrected["entities"] == 1
    with project.journal.read() as reader:
        assert snapshot(reader.database) == before


def test_rebuilding_makes_a_binding_again_as_it_was_said(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    for host, external in (("codex", "c1"), ("kimi", "c1"), ("codex", "c2")):
        bind(project, BindRequest(host=host, external_session=external, work="parse"))  # type: ignore[arg-type]
    said = SayRequest(host="codex", external_session="c1", next_action="n", digest="d", open_loops=("one", "two"))
    say_progress(project, said)
    say_progress(project, SayRequest(host="codex", external_session="c1", next_action="m"))
    with project.journal.read() as reader:
        before = snapshot(reader.database)
    connection = sqlite3.connect(project.journal.path, isolation_level=None)
    connection.execute("UPDATE client_bindings SET next_action = 'forged', digest = NULL WHERE client = 'codex'")
    connection.execute("DELETE FROM client_bindings WHERE client = 'kimi'")
    connection.close()
    # Two rows that were wrong and the two that they should be, and one that was missing.
    assert rebuild(project, RebuildRequest()).rows_corrected["client_bindings"] == 5
    with project.journal.read() as reader:
        assert snapshot(reader.database) == before


def test_rebuilding_keeps_the_ids_that_sources_were_given(tmp_path: Path) -> None:
    project = make_project(tmp_path / "p")
    with project.journal.read() as reader:
        ids = {tuple(row) for row in reader.database.rows("SELECT external_key, id FROM entities")}
    rebuild(project, RebuildRequest())
    refresh(project, force=True)
    with project.journal.read() as reader:
        assert {tuple(row) for row in reader.database.rows("SELECT external_key, id FROM entities")} == ids


def test_every_projector_belongs_to_a_known_event_type() -> None:
    from awr.domain.events import EVENT_TYPES

    assert set(projections._PROJECTORS) <= set(EVENT_TYPES)
