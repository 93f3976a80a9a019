"""Random observing, deferring, retrying and ending against a plain model of the contract."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from awr.domain.compaction import Observation
from awr.errors import AwrError
from awr.journal.verification import verify
from awr.operations.compaction import DeferRequest, InspectRequest, ObserveRequest, defer, inspect, observe
from awr.operations.session import EndRequest, end
from tests.domain.test_compaction import observation
from tests.support.projects import begin_session, make_project, revision

numbers = st.integers(1, 6)
afters = st.sampled_from([None, 0, 99_999, 100_000, 150_000, 250_000])


class CompactionMachine(RuleBasedStateMachine):
    """The model: a list of recorded observations, a set of deferred ones, and whether the session is active."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self.recorded: list[tuple[Observation, str]] = []
        self.deferrals: dict[str, str] = {}
        self.active = True

    @initialize()
    def begin(self) -> None:
        self.project = make_project(Path(self._folder.name) / "p")
        self.session = begin_session(self.project)
        self.revision = revision(self.project)

    @rule(number=numbers, sequence=numbers, after=afters, later=st.integers(0, 2), manual=st.booleans())
    def observe_something(self, number: int, sequence: int, after: int | None, later: int, manual: bool) -> None:
        value = observation(
            compaction_id=f"c{number}",
            sequence=sequence,
            observed_at=1_789_500_000_000 + later,
            after_tokens=after,
            context_window_tokens=200_000,
            trigger="manual" if manual else "automatic",
        )
        known = next(((one, event) for one, event in self.recorded if one.compaction_id == value.compaction_id), None)
        outcome = self._send(value, expected_revision=self.revision)
        if known is not None:
            if known[0] == value:
                assert outcome == ("already", known[1])
            else:
                assert outcome == ("SourceConflict", None)
        elif not self.active:
            assert outcome == ("InvalidTransition", None)
        elif self.recorded and not _follows(value, self.recorded[-1][0]):
            assert outcome == ("SourceConflict", None)
        else:
            assert outcome[0] == "recorded"
            self.recorded.append((value, str(outcome[1])))
            self.revision += 1

    @precondition(lambda self: self.recorded)
    @rule(which=st.integers(0, 5), stale=st.booleans())
    def retry_exactly(self, which: int, stale: bool) -> None:
        value, event = self.recorded[which % len(self.recorded)]
        assert self._send(value, expected_revision=0 if stale else self.revision) == ("already", event)

    @rule(sequence=numbers)
    def observe_with_a_stale_revision(self, sequence: int) -> None:
        value = observation(compaction_id=f"new-{sequence}", sequence=sequence)
        assert self._send(value, expected_revision=self.revision - 1) == ("RevisionConflict", None)

    @precondition(lambda self: self.recorded)
    @rule(which=st.integers(0, 5))
    def defer_something(self, which: int) -> None:
        event = self.recorded[which % len(self.recorded)][1]
        request = DeferRequest(session=self.session, observation_event_id=event, expected_revision=self.revision)
        try:
            result = defer(self.project, request)
        except AwrError as error:
            expected = "SourceConflict" if self.active else "InvalidTransition"
            assert error.code == expected
            assert event not in self.deferrals
            assert not self.active or event != self.recorded[-1][1]
            return
        if event in self.deferrals:
            assert result.already_recorded is True
            assert result.recorded_event_id == self.deferrals[event]
        else:
            assert self.active
            assert event == self.recorded[-1][1]
            self.deferrals[event] = str(result.recorded_event_id)
            self.revision += 1

    @precondition(lambda self: self.active and len(self.recorded) > 2)
    @rule()
    def end_the_session(self) -> None:
        end(self.project, EndRequest(session=self.session, expected_revision=self.revision))
        self.active = False
        self.revision += 1

    @invariant()
    def what_is_inspected_is_what_the_model_says(self) -> None:
        if not hasattr(self, "session"):
            return
        found = inspect(self.project, InspectRequest(session=self.session, include_observation=True))
        assert found.project_revision == self.revision
        latest = self.recorded[-1] if self.recorded else (None, None)
        assert (found.observation, found.observation_event_id) == latest
        assert found.state == self._state()
        assert ("not active" in found.guidance.when) == (not self.active)

    def teardown(self) -> None:
        if hasattr(self, "project"):
            with self.project.journal.read() as reader:
                assert verify(reader.database).broken is None
        self._folder.cleanup()

    def _state(self) -> str:
        if not self.recorded:
            return "measurement_missing"
        value, event = self.recorded[-1]
        if event in self.deferrals:
            return "deferred"
        if value.trigger == "manual":
            return "manual_observation"
        if value.after_tokens is None:
            return "measurement_missing"
        return "handoff_candidate" if value.after_tokens >= 100_000 else "continue"

    def _send(self, value: Observation, *, expected_revision: int) -> tuple[str, Any]:
        request = ObserveRequest(session=self.session, expected_revision=expected_revision, observation=value)
        try:
            result = observe(self.project, request)
        except AwrError as error:
            return error.code, None
        return "already" if result.already_recorded else "recorded", result.recorded_event_id


def _follows(value: Observation, latest: Observation) -> bool:
    return value.sequence > latest.sequence and value.observed_at >= latest.observed_at


TestCompactionMachine = CompactionMachine.TestCase
TestCompactionMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
