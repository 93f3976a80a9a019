"""Random calls whose answers get lost on either side of AWR, against a plain model of what must be remembered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from awr.client import InProcessTransport
from awr.client.transport import Answer, Receipts
from awr.errors import CommandFailed, WorkflowRefused
from awr.ids import Clock
from tests.support.contexts import note
from tests.support.projects import revision
from tests.support.workflows import acknowledged, begun, observation, state_of, workflow_on

#: How a call may go: as it should, unsaid though done, never done, or with the caller's own death before or after.
WAYS = ("fine", "fine", "lost", "dropped", "died_before", "died_after")


class DeathError(BaseException):
    """Stands in for a kill: nothing in the client may catch it."""


class UnreliableTransport(InProcessTransport):
    """The real operations behind a line that fails when it is told to, once."""

    way = "fine"

    def call(
        self, operation: str, arguments: Mapping[str, Any], *, project: Path, receipts: Receipts, clock: Clock
    ) -> Answer:
        way, self.way = self.way, "fine"
        if way == "died_before":
            raise DeathError
        if way == "dropped":
            return Answer(known=False, value=None, report=None, stdout_sha256="")
        answer = super().call(operation, arguments, project=project, receipts=receipts, clock=clock)
        if way == "died_after":
            raise DeathError
        return answer if way == "fine" else msgspec.structs.replace(answer, known=False)


class WorkflowMachine(RuleBasedStateMachine):
    """The model: what AWR holds, whether a write is pending, and whether the workflow's revision is current."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = TemporaryDirectory()
        self.observed: list[int] = []
        self.checkpoints = 0
        self.writes = 1
        self.pending = False
        self.current = True
        self.hash: str | None = None

    @initialize()
    def begin(self) -> None:
        self.line = UnreliableTransport()
        self.project, self.workflow = begun(Path(self._folder.name), transport=self.line)

    @precondition(lambda self: not self.pending)
    @rule(way=st.sampled_from(WAYS))
    def observe_a_compaction(self, way: str) -> None:
        number = len(self.observed) + 1
        if self._write(way, lambda: self.workflow.observe_compaction(observation(number))):
            self.observed.append(number)

    @precondition(lambda self: not self.pending and self.hash is not None)
    @rule(way=st.sampled_from(WAYS))
    def save_a_checkpoint(self, way: str) -> None:
        if self._write(way, lambda: self.workflow.checkpoint(self.hash or "", "Half way", "Go on")):
            self.checkpoints += 1

    @precondition(lambda self: not self.pending)
    @rule()
    def fetch_the_context(self) -> None:
        self.hash = acknowledged(self.workflow)
        self.current = True

    @rule()
    def somebody_else_writes(self) -> None:
        note(self.project)
        self.current = False

    @rule()
    def the_host_starts_again(self) -> None:
        self.workflow = workflow_on(self.project, transport=self.line)

    @precondition(lambda self: self.pending)
    @rule()
    def nothing_else_is_done(self) -> None:
        before = revision(self.project)
        calls: list[Any] = [
            self.workflow.context,
            lambda: self.workflow.observe_compaction(observation(9)),
            lambda: self.workflow.checkpoint("ab" * 32, "d", "n"),
        ]
        for call in calls:
            with pytest.raises(WorkflowRefused, match="a write is pending"):
                call()
        assert revision(self.project) == before

    @precondition(lambda self: self.pending)
    @rule()
    def inspect_and_reconcile(self) -> None:
        before = revision(self.project)
        seen = self.workflow.inspect()
        self.workflow.reconcile(seen["inspection_sha256"], "looked at the facts")
        assert revision(self.project) == before
        self.pending, self.current, self.hash = False, True, None
        self.writes += 1

    @invariant()
    def the_state_and_the_journal_are_what_the_model_says(self) -> None:
        if not hasattr(self, "workflow"):
            return
        state = state_of(self.project)
        assert (state["pending"] is not None) == self.pending
        assert len(state["history"]) == self.writes
        assert (state["context"] is not None) == (self.hash is not None)
        with self.project.journal.read() as reader:
            rows = reader.database.rows("SELECT event_type FROM events")
        types = [row["event_type"] for row in rows]
        assert types.count("client.compaction_observed") == len(self.observed)
        assert types.count("checkpoint.created") == self.checkpoints
        assert types.count("session.started") == 1
        if self.current and not self.pending:
            assert state["last_revision"] == revision(self.project)

    def teardown(self) -> None:
        self._folder.cleanup()

    def _write(self, way: str, call: Any) -> bool:
        """Make one write, and tell whether AWR must hold it now."""
        self.line.way = way
        done = self.current and way not in {"dropped", "died_before"}
        try:
            call()
        except (CommandFailed, DeathError):
            self.pending = True
            assert way != "fine" or not self.current
        else:
            assert done
            assert way == "fine"
            self.writes += 1
        return done


TestWorkflowMachine = WorkflowMachine.TestCase
TestWorkflowMachine.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)
