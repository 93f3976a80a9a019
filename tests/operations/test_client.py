"""Hosts' conversations: bound once, to one session, by however many processes, and whatever ends them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from awr.domain.binding import HostName
from awr.errors import (
    BudgetExceeded,
    ContextIncomplete,
    InvalidInput,
    InvalidTransition,
    NotFound,
    RevisionConflict,
    RuleViolation,
    SourceConflict,
    SourceStale,
    Storage,
)
from awr.journal.bindings import unbound_sessions
from awr.journal.events import Event, events_in_order
from awr.journal.sessions import lineage, successor_of
from awr.journal.verification import verify
from awr.operations import binding as binding_room
from awr.operations import client as client_room
from awr.operations.backup import BackupRequest, backup
from awr.operations.binding import BindRequest, BindResult, bind
from awr.operations.bootstrap import BootstrapRequest, bootstrap
from awr.operations.client import ProgressRequest, ProgressResult, ShowRequest, progress, show, turn
from awr.operations.journal import RebuildRequest, rebuild
from awr.operations.registry import OPERATIONS, operation_named
from awr.operations.resume import ResumeRequest, resume
from awr.operations.session import EndRequest, ListRequest, StartRequest, end, listing, start
from awr.project import Project
from awr.surfaces.cli.app import run
from tests.operations.test_execution import announce, say
from tests.support.cli import AWR, call, tree
from tests.support.projects import Clock, begin_session, make_project, revision

SECRET = "sk-ant-0123456789abcdefghij"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def project(tmp_path: Path, clock: Clock) -> Project:
    return minimal(tmp_path / "p", clock=clock)


def minimal(root: Path, *, clock: Clock | None = None) -> Project:
    """Make a project whose required context is complete, so that its sessions can be gone on from."""
    made = make_project(root, clock=clock)
    text = made.manifest_path.read_text()
    made.manifest_path.write_text(text.replace('name = "demo"', 'name = "demo"\ncontext_profile = "minimal"'))
    return made


def bound(project: Project, external: str = "c1", *, host: HostName = "codex", **fields: Any) -> BindResult:
    return bind(project, BindRequest(host=host, external_session=external, **{"work": "parse", **fields}))


def said(project: Project, external: str = "c1", *, host: HostName = "codex", **fields: Any) -> ProgressResult:
    request = ProgressRequest(host=host, external_session=external, **{"next_action": "Write escapes", **fields})
    return progress(project, request)


def shown(project: Project, external: str = "c1", *, host: HostName = "codex") -> Any:
    return show(project, ShowRequest(host=host, external_session=external)).binding


def labelled(project: Project, agent: str = "codex:c1", *, work: str = "parse") -> str:
    request = StartRequest(agent=agent, provider="codex", model="m", work=work, expected_revision=revision(project))
    return start(project, request).session.id


def finish(project: Project, session: str) -> None:
    end(project, EndRequest(session=session, expected_revision=revision(project)))


def events(project: Project, *, after: int = 2) -> list[Event]:
    with project.journal.read() as reader:
        return [event for event, _ in events_in_order(reader.database) if event.project_revision > after]


def sessions(project: Project, *, active: bool = False) -> list[Any]:
    return list(listing(project, ListRequest(active=active)).sessions)


def refused(project: Project, error: type[Exception], act: Any = bound, **fields: Any) -> Any:
    """Try something; nothing may be written by it."""
    before = revision(project)
    with pytest.raises(error) as caught:
        act(project, **fields)
    assert revision(project) == before
    return caught.value


# A new binding


def test_the_context_of_a_binding_is_recorded_with_it(project: Project) -> None:
    result = bound(project)
    found = shown(project)
    assert len(found.context_hash) == 64
    assert (found.context_hash, found.context_revision) == (result.context.context_hash, 3)
    assert bound(project).binding.context_hash == found.context_hash


def test_a_context_that_does_not_fit_leaves_nothing_bound(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("awr.operations.binding.BUDGET", 10)
    refused(project, BudgetExceeded)
    assert shown(project) is None
    assert sessions(project) == []


def test_going_on_from_its_own_session_that_is_over_takes_a_conversation_of_its_own(project: Project) -> None:
    session = bound(project).binding.session_id
    finish(project, session)
    refused(project, InvalidTransition, from_session=session)


def test_an_unbound_conversation_gets_a_session_of_its_own_in_one_revision(project: Project, clock: Clock) -> None:
    result = bound(project, model="opus")
    session = sessions(project)[0]
    assert (session.agent_id, session.provider, session.model) == ("codex:c1", "codex", "opus")
    assert (result.binding_reused, result.read_only, result.project_revision) == (False, False, 3)
    assert msgspec.to_builtins(result.binding) == {
        "client": "codex",
        "external_session": "c1",
        "session_id": session.id,
        "revision": 3,
        "digest": None,
        "next_action": None,
        "open_loops": (),
        "context_hash": result.context.context_hash,
        "context_revision": 3,
        "progress_revision": None,
        "last_delivery_key": None,
        "last_hook_event": None,
        "checkpoint_id": None,
        "observed_at": clock.now,
    }
    made = events(project)
    assert [(one.event_type, one.session_id) for one in made] == [
        ("session.started", session.id),
        ("client.bound", session.id),
    ]
    assert {one.project_revision for one in made} == {3}
    assert made[1].content() == {
        "client": "codex",
        "external_session": "c1",
        "context_hash": result.context.context_hash,
        "context_revision": 3,
    }


def test_a_model_that_is_not_told_is_not_invented(project: Project) -> None:
    bound(project)
    assert sessions(project)[0].model == "not-reported"


@pytest.mark.parametrize("host", get_args(HostName))
def test_conversations_of_different_clients_are_different(project: Project, host: HostName) -> None:
    own = bound(project, "c1", host=host).binding.session_id
    others = {bound(project, "c1", host=one).binding.session_id for one in get_args(HostName) if one != host}
    assert len({own, *others}) == len(get_args(HostName))


def test_the_longest_id_of_the_longest_client_is_bound_and_gone_on_from(project: Project) -> None:
    first = bound(project, "x" * 512, host="claude-code")
    second = bound(project, "y" * 512, host="claude-code", from_session=first.binding.session_id)
    assert not second.binding_reused


def test_the_context_is_the_start_that_the_session_would_be_given(project: Project) -> None:
    result = bound(project)
    asked = bootstrap(project, BootstrapRequest(session=result.binding.session_id, budget=5000))
    assert result.context == asked
    assert result.context.context.work is not None
    assert result.context.context.work.external_key == "parse"


def test_a_source_that_was_edited_before_is_read_first(project: Project) -> None:
    ledger = project.root / "work-ledger.yaml"
    ledger.write_text(ledger.read_text().replace("  - id: report", "  - id: extra\n    title: More\n  - id: report"))
    assert bound(project, work="extra").context.context.work is not None
    assert [one.event_type for one in events(project)] == ["source.projected", "session.started", "client.bound"]


def test_a_broken_source_stops_a_new_session_and_neither_an_attached_nor_a_bound_one(project: Project) -> None:
    session, other = begin_session(project), bound(project, "c2").binding
    (project.root / "work-ledger.yaml").write_text("work_items: [")
    with pytest.raises(SourceStale):
        bound(project)
    assert shown(project) is None
    assert bound(project, session=session).binding.session_id == session
    again = bound(project, "c2")
    assert again.binding == other
    assert not again.context.context.complete


def test_unknown_work_is_not_found(project: Project) -> None:
    refused(project, NotFound, work="nothing")


def test_the_executions_of_the_work_are_told_with_those_whose_outcome_is_unknown(project: Project) -> None:
    session = begin_session(project)
    announce(project, session, operation_key="quiet")
    reported = announce(project, session, operation_key="begun").execution.id
    say(project, reported, "started")
    begun = begin_session(project, work="report")
    announce(project, begun, operation_key="elsewhere")
    found = bound(project).executions
    assert [(one.execution.operation_key, one.uncertain) for one in found] == [("quiet", False), ("begun", True)]


# Attaching


def test_a_named_session_is_attached_and_left_as_it_is(project: Project) -> None:
    session = begin_session(project, claim=True)
    before = revision(project)
    result = bound(project, session=session)
    assert result.binding.session_id == session
    assert [one.event_type for one in events(project, after=before)] == ["client.bound"]
    assert sessions(project)[0].agent_id == "tester"


def test_a_session_of_other_work_one_that_is_over_and_an_unknown_one_are_not_attached(project: Project) -> None:
    other, over = begin_session(project, work="report"), begin_session(project)
    finish(project, over)
    refused(project, RuleViolation, session=other)
    refused(project, InvalidTransition, session=over)
    refused(project, NotFound, session="nothing")
    assert shown(project) is None


def test_a_session_to_attach_and_one_to_go_on_from_are_refused_together(project: Project) -> None:
    session = begin_session(project)
    refused(project, InvalidInput, session=session, from_session=session)


# Going on


def test_a_conversation_goes_on_from_another_session_without_its_claim(project: Project) -> None:
    first = begin_session(project, claim=True)
    before = revision(project)
    result = bound(project, from_session=first)
    successor = result.binding.session_id
    with project.journal.read() as reader:
        assert lineage(reader.database, successor) == [successor, first]
    assert [one.event_type for one in events(project, after=before)] == [
        "claim.released",
        "session.resumed",
        "session.resumed_from",
        "client.bound",
    ]
    assert [(one.id, one.agent_id) for one in sessions(project, active=True)] == [(successor, "codex:c1")]


def test_the_same_call_to_go_on_is_reused_and_one_from_another_session_conflicts(project: Project) -> None:
    first, other = begin_session(project), begin_session(project)
    made = bound(project, from_session=first).binding
    before = revision(project)
    again = bound(project, from_session=first)
    assert (again.binding, again.binding_reused, revision(project)) == (made, True, before)
    refused(project, SourceConflict, from_session=other)


def test_a_session_of_other_work_or_with_a_successor_is_not_gone_on_from(project: Project) -> None:
    other, taken = begin_session(project, work="report"), begin_session(project)
    bound(project, "c2", from_session=taken)
    refused(project, RuleViolation, from_session=other)
    refused(project, InvalidTransition, from_session=taken)


def test_incomplete_required_context_goes_on_from_nobody_and_names_what_is_missing(tmp_path: Path) -> None:
    project = make_project(tmp_path / "strict")
    first = begin_session(project)
    error = refused(project, ContextIncomplete, from_session=first)
    assert "rules_source_missing" in error.details["got"]
    assert [one.id for one in sessions(project, active=True)] == [first]


def test_a_writer_that_comes_between_is_followed_by_another_try_up_to_eight_in_all(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = begin_session(project)
    tries: list[int] = []

    def interrupted(target: Project, request: ResumeRequest) -> Any:
        tries.append(request.expected_revision)
        if len(tries) <= interruptions:
            begin_session(target, work="report")
        return resume(target, request)

    monkeypatch.setattr(binding_room, "resume", interrupted)
    interruptions = 7
    result = bound(project, from_session=first)
    assert len(tries) == 8 == len(set(tries))
    tries.clear()
    interruptions = 8
    with pytest.raises(RevisionConflict):
        bound(project, "c2", from_session=result.binding.session_id)
    assert len(tries) == 8
    assert shown(project, "c2") is None


# A session that waits for its conversation


def test_the_one_active_session_of_the_conversation_that_nobody_is_bound_to_is_taken_up(project: Project) -> None:
    waiting = labelled(project)
    assert bound(project).binding.session_id == waiting
    assert len(sessions(project)) == 1


def test_several_sessions_that_wait_are_a_conflict_and_naming_one_settles_it(project: Project) -> None:
    first, _ = labelled(project), labelled(project)
    refused(project, SourceConflict)
    assert bound(project, session=first).binding.session_id == first


def test_a_session_of_other_work_of_another_agent_or_over_does_not_wait(project: Project) -> None:
    over = labelled(project)
    finish(project, over)
    others = {over, labelled(project, work="report"), labelled(project, "codex:c2"), labelled(project, "kimi:c1")}
    assert bound(project).binding.session_id not in others


def test_a_session_that_a_binding_names_does_not_wait(project: Project) -> None:
    named = labelled(project)
    bound(project, "c2", session=named)
    assert bound(project).binding.session_id != named


# A binding that is there


def test_the_same_binding_is_reused_and_nothing_is_written(project: Project) -> None:
    first = bound(project, model="opus")
    before = tree(project.root)
    selectors: tuple[dict[str, Any], ...] = ({}, {"session": first.binding.session_id}, {"model": "another"})
    for selector in selectors:
        again = bound(project, **selector)
        assert (again.binding, again.binding_reused, again.read_only) == (first.binding, True, True)
        assert again.project_revision == 3
    assert tree(project.root) == before


def test_a_bound_conversation_with_other_work_or_another_session_is_a_conflict(project: Project) -> None:
    first, other = bound(project).binding, begin_session(project)
    for fields in ({"work": "report"}, {"session": other}, {"from_session": other}):
        error = refused(project, SourceConflict, **fields)
        assert error.details["session"] == first.session_id


def test_a_conversation_whose_session_is_over_is_told_to_go_on_in_a_new_one(project: Project) -> None:
    session = bound(project).binding.session_id
    finish(project, session)
    error = refused(project, InvalidTransition)
    assert "--from-session" in error.details["next_step"]
    assert bound(project, "c2", from_session=session).binding.session_id != session


# Bounds


@pytest.mark.parametrize("act", [bound, said, lambda project, external: shown(project, external)])
@pytest.mark.parametrize("external", ["", " ", "x" * 513, "a\nb", "a\x7f", "\udcff"])
def test_an_id_out_of_bounds_is_refused_and_not_echoed(project: Project, act: Any, external: str) -> None:
    error = refused(project, InvalidInput, act, external=external)
    assert not external.strip() or external not in str(error.report())


@pytest.mark.parametrize("field", ["external", "model", "work", "session", "from_session"])
def test_a_secret_is_refused_before_anything_is_bound(project: Project, field: str) -> None:
    assert SECRET not in str(refused(project, RuleViolation, **{field: SECRET}).report())


@pytest.mark.parametrize("model", ["", " ", "x" * 641, "a\nb"])
def test_a_model_out_of_bounds_is_refused(project: Project, model: str) -> None:
    refused(project, InvalidInput, model=model)


# Progress


def test_progress_is_recorded_with_the_revision_that_records_it(project: Project, clock: Clock) -> None:
    first = bound(project).binding
    clock.now += 5
    result = said(project, digest="Grammar done", open_loops=("tabs", "spaces"))
    assert result.binding == msgspec.structs.replace(
        first,
        revision=4,
        digest="Grammar done",
        next_action="Write escapes",
        open_loops=("tabs", "spaces"),
        progress_revision=4,
        observed_at=clock.now,
    )
    assert result.project_revision == revision(project) == 4
    (event,) = events(project, after=3)
    assert (event.event_type, event.session_id) == ("client.updated", first.session_id)
    assert shown(project) == result.binding


def test_what_is_not_said_again_stays_and_open_loops_are_replaced_or_cleared(project: Project) -> None:
    bound(project)
    said(project, digest="d", open_loops=("one", "two"))
    kept = said(project, next_action="Next").binding
    assert (kept.next_action, kept.digest, kept.open_loops) == ("Next", "d", ("one", "two"))
    assert said(project, open_loops=("three",)).binding.open_loops == ("three",)
    cleared = said(project, digest="e", clear_open_loops=True).binding
    assert (cleared.open_loops, cleared.digest, cleared.progress_revision) == ((), "e", 7)
    refused(project, InvalidInput, said, open_loops=("one",), clear_open_loops=True)


def test_progress_of_a_conversation_that_is_not_bound_is_not_found(project: Project) -> None:
    bound(project)
    refused(project, NotFound, said, external="c2")
    refused(project, NotFound, said, host="kimi")


def test_progress_of_a_session_that_is_over_is_refused(project: Project) -> None:
    finish(project, bound(project).binding.session_id)
    refused(project, InvalidTransition, said)


@pytest.mark.parametrize("fields", [{"next_action": " "}, {"digest": ""}, {"open_loops": ("a", " ")}])
def test_a_blank_text_is_refused(project: Project, fields: dict[str, Any]) -> None:
    bound(project)
    refused(project, InvalidInput, said, **fields)


@pytest.mark.parametrize("fields", [{"next_action": SECRET}, {"digest": SECRET}, {"open_loops": ("a", SECRET)}])
def test_a_secret_in_progress_is_refused_without_an_echo(project: Project, fields: dict[str, Any]) -> None:
    bound(project)
    assert SECRET not in str(refused(project, RuleViolation, said, **fields).report())


def test_text_that_is_no_unicode_is_refused(project: Project) -> None:
    bound(project)
    refused(project, InvalidInput, said, next_action="\udcff")


# Showing


def test_showing_reads_the_record_alone_and_says_null_for_an_unbound_conversation(project: Project) -> None:
    made = bound(project).binding
    (project.root / "work-ledger.yaml").unlink()
    before = tree(project.root)
    assert shown(project) == made
    assert shown(project, "c2") is None
    assert shown(project, host="kimi") is None
    assert tree(project.root) == before


# The lock


def test_a_conversation_waits_for_its_turn_and_another_one_does_not(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_room, "PATIENCE_S", 0.02)
    with turn(project, ShowRequest(host="codex", external_session="c1")):
        refused(project, Storage)
        refused(project, Storage, said)
        assert bound(project, "c2").binding_reused is False
        assert shown(project) is None
    assert bound(project).binding_reused is False


def test_locks_have_names_that_tell_no_id_and_stay_out_of_version_control_and_backups(
    project: Project, tmp_path: Path
) -> None:
    bound(project, "thread-17")
    folder = project.folder / "clients"
    (lock,) = folder.glob("*.lock")
    assert len(lock.stem) == 64
    assert set(lock.stem) <= set("0123456789abcdef")
    assert (folder / ".gitignore").read_text() == "*\n"
    backup(project, BackupRequest(folder=str(tmp_path / "copy")))
    assert list((tmp_path / "copy").rglob("clients")) == []


def test_several_processes_that_bind_one_conversation_make_one_session_and_one_binding(tmp_path: Path) -> None:
    project = minimal(tmp_path / "p")
    words = ["--project", project.root, "--json", "client", "bind", "--client", "codex", "--external-session", "c1"]
    command = [*AWR, *map(str, words), "--work", "parse"]
    with running([command] * 6) as answers:
        found = [json.loads(answer) for answer in answers]
    assert Counter(one["binding_reused"] for one in found) == {True: 5, False: 1}
    assert {one["binding"]["session_id"] for one in found} == {sessions(project)[0].id}
    assert [one.event_type for one in events(project)] == ["session.started", "client.bound"]
    require_sound(project)


def test_several_processes_that_go_on_from_different_sessions_each_get_their_own(tmp_path: Path) -> None:
    project = minimal(tmp_path / "p")
    first = [begin_session(project) for _ in range(4)]
    commands = []
    for number, session in enumerate(first):
        words = ["--client", "kimi", "--external-session", f"c{number}", "--work", "parse", "--from-session", session]
        commands.append([*AWR, "--project", str(project.root), "--json", "client", "bind", *words])
    with running(commands) as answers:
        found = {json.loads(answer)["binding"]["session_id"] for answer in answers}
    assert found == {one.id for one in sessions(project, active=True)}
    assert len(found) == 4
    require_sound(project)


@contextmanager
def running(commands: list[list[str]]) -> Any:
    """Run every command at once and yield what they print; each must succeed."""
    started = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    done = [(process.communicate(timeout=120), process.returncode) for process in started]
    assert [(out[1], code) for out, code in done] == [("", 0)] * len(commands)
    yield [out[0] for out, _ in done]


def require_sound(project: Project) -> None:
    with project.journal.read() as reader:
        assert verify(reader.database).broken is None
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


GO_ON = """
import sys
from pathlib import Path
from awr.operations.binding import BindRequest, bind
from awr.project import Project
from tests.support.killing import die_at
project = Project.open(Path(sys.argv[1]))
count = die_at(int(sys.argv[3]), commits_only=True)
bind(project, BindRequest(host="codex", external_session="c1", work="parse", from_session=sys.argv[2]))
print(count())
"""


@pytest.mark.parametrize("named", [True, False], ids=["the same call", "a call that names no session"])
def test_a_bind_killed_at_any_commit_is_healed_by_binding_again(tmp_path: Path, *, named: bool) -> None:
    boundary, between = 0, 0
    while True:
        boundary += 1
        project = minimal(tmp_path / f"run-{boundary}")
        first = begin_session(project)
        command = [sys.executable, "-c", GO_ON, str(project.root), first, str(boundary)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        with project.journal.read() as reader:
            successor = successor_of(reader.database, first)
            work = next(iter(sessions(project))).work_item_id
            waiting = unbound_sessions(reader.database, agent_id="codex:c1", work_item_id=work)
        assert waiting in ([], [successor])
        between += bool(waiting)
        if done.returncode != 0:
            assert done.returncode == -signal.SIGKILL, done.stderr
        # A call that names no session goes on only where the resume was committed before the process died.
        again = bound(project, from_session=first if named or successor is None else None)
        with project.journal.read() as reader:
            assert lineage(reader.database, again.binding.session_id) == [again.binding.session_id, first]
            assert successor in {None, again.binding.session_id}
            assert unbound_sessions(reader.database, agent_id="codex:c1", work_item_id=work) == []
        found = Counter(one.event_type for one in events(project))
        assert (found["session.resumed"], found["client.bound"]) == (1, 1)
        require_sound(project)
        if done.returncode == 0:
            break
    assert between == 2
    assert boundary - 1 == int(done.stdout) == 4


# Who may ask, and how


def test_only_somebody_at_this_machine_may_bind_a_conversation() -> None:
    found = {one.name: one.effect for one in OPERATIONS if one.name.startswith("client.")}
    assert found == {"client.bind": "write", "client.progress": "write", "client.show": "runtime_read"}
    assert not any(operation_named(name).exposed for name in found)


@pytest.mark.parametrize("command", ["bind", "progress", "show"])
def test_the_client_has_to_be_named_and_known(
    capsys: pytest.CaptureFixture[str], project: Project, command: str
) -> None:
    words = [
        "--external-session",
        "c1",
        *{"bind": ["--work", "parse"], "progress": ["--next-action", "n"]}.get(command, []),
    ]
    call(capsys, "--project", project.root, "--json", "client", command, *words).error("InvalidInput", exit_code=2)
    words += ["--client", "cursor"]
    call(capsys, "--project", project.root, "--json", "client", command, *words).error("InvalidInput", exit_code=2)


def test_a_person_reads_what_is_bound_what_is_next_and_what_is_open(
    capsys: pytest.CaptureFixture[str], project: Project
) -> None:
    def told(*words: str) -> str:
        capsys.readouterr()
        assert (
            run(["--project", str(project.root), "client", *words, "--client", "kimi", "--external-session", "k"])
            == 0
        )
        return capsys.readouterr().out

    assert "not bound" in told("show")
    first = told("bind", "--work", "parse")
    assert "conversation k of kimi" in first
    assert "Write the grammar" in first
    assert "nothing written" not in first
    assert "bound already, nothing written" in told("bind", "--work", "parse")
    answer = told(
        "progress", "--next-action", "Escapes", "--digest", "Half", "--open-loop", "tabs", "--open-loop", "x"
    )
    for line in ("next action: Escapes", "digest: Half", "open: tabs", "open: x", "revision 4"):
        assert line in answer
    assert "open:" not in told("progress", "--next-action", "Escapes", "--clear-open-loops")
    assert "next action: Escapes" in told("show")
