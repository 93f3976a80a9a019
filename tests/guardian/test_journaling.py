"""In a project, what was decided about a compaction and what became of it are events; steps are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from awr.domain.provenance import TrustMap
from awr.guardian.guardian import Guardian
from awr.guardian.judge import Judge
from awr.guardian.policies.engine import CedarPolicy
from awr.guardian.policies.packs import chosen
from awr.journal.events import Event, events_in_order
from awr.journal.verification import verify
from awr.operations.guardian_endorse import TOKEN_VARIABLE, EndorseRequest, endorse
from awr.operations.journal import RebuildRequest, rebuild
from awr.project import Project
from tests.guardian.test_judge import asked, folded, read, said
from tests.support.acs import KEYS, TEXT, Agent, guardian_at
from tests.support.projects import make_project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path)


@pytest.fixture
def agent(project: Project) -> Agent:
    guardian = guardian_at(project.journal.path)
    judge = Judge(CedarPolicy(chosen("trust-boundary", root=project.root)), guardian.store, trust_map=TrustMap())
    agent = Agent(Guardian(guardian.store, keys=KEYS, transports=("http",), policy=judge).answer)
    agent.begin()
    return agent


def guardians_events(project: Project) -> list[Event]:
    with project.journal.read() as reader:
        assert verify(reader.database).broken is None
        found = [event for event, _ in events_in_order(reader.database)]
    return [event for event in found if event.event_type.startswith("guardian.")]


def revision(project: Project) -> int:
    with project.journal.read() as reader:
        return reader.project_revision


def test_a_question_and_a_finished_fold_are_events_and_move_the_revision(project: Project, agent: Agent) -> None:
    before = revision(project)
    steps = [said(agent, "u"), read(agent, "t")]
    assert revision(project) == before, "a step moves nothing"
    asked(agent, steps)
    answer = asked(agent, steps)
    folded(agent, steps, "s", "t", "u", head=answer["chain_hash"])
    found = guardians_events(project)
    assert [event.event_type for event in found] == ["guardian.decided", "guardian.decided", "guardian.folded"]
    assert revision(project) == before + 3
    denied, allowed, fold = [event.content() for event in found]
    assert (denied["decision"], denied["reason_codes"]) == ("deny", ["aarm_cumulative_taint"])
    assert allowed["chain_hash"] == answer["chain_hash"]
    assert (fold["decided_at"], fold["summary_id"], fold["entries"]) == (allowed["position"], "s", 2)
    assert found[0].importance == "high"
    assert "reasoning" not in denied
    assert TEXT not in repr(found)
    assert set(rebuild(project, RebuildRequest()).rows_corrected.values()) == {0}


def test_a_fold_that_nobody_asked_about_is_a_fault_of_the_project(project: Project, agent: Agent) -> None:
    steps = [said(agent, "u")]
    folded(agent, steps, "s", "u", head="0" * 64)
    fault = guardians_events(project)[-1]
    assert (fault.event_type, fault.importance) == ("guardian.fault", "high")
    assert fault.content()["faults"] == ["ungoverned_fold", "lineage_mismatch"]


def test_an_endorsement_is_an_event_with_who_and_why(
    project: Project, agent: Agent, home_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(agent, "t")
    place = home_folder / ".config" / "awr"
    place.mkdir(parents=True)
    (place / "operator.token").write_text("an operator's token, which is 32 bytes long")
    (place / "operator.token").chmod(0o600)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home_folder / ".config"))
    monkeypatch.setenv(TOKEN_VARIABLE, "an operator's token, which is 32 bytes long")
    endorse(
        project.root, EndorseRequest(session=agent.session_id, who="me", why="I read it", data=("t",), accept=True)
    )
    [event] = guardians_events(project)
    content = event.content()
    assert (event.event_type, content["confirmed_by"], content["number"]) == ("guardian.endorsed", "token", 1)
    assert "'provenance_ids': ['t']" in repr(content["endorsement"])
