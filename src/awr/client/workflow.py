"""A host's loop around one session: begin, give the context out, record, complete, end, and never twice.

`python -m awr.client.workflow` offers the same to programs that are not written in Python.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from awr.client.delivery import acknowledged, require_acknowledged, require_delivered
from awr.client.in_process import InProcessTransport
from awr.client.inspection import inspected, reconciled
from awr.client.negotiation import View
from awr.client.opening import bound_state, opened
from awr.client.preparation import compiled, prepared
from awr.client.state import StateFile
from awr.client.transport import Transport
from awr.client.turn import Turn, part, plain
from awr.errors import WorkflowRefused, io_error
from awr.ids import Clock, NewId, new_id, system_clock

__all__ = ["Workflow"]


class Workflow:
    """One agent's session, driven by a host, with its memory in a state file.

    `project` is the project folder and `project_id` the id that it must have. `state` is the state file, in a private
    folder of its own. `transport` is how AWR is reached: in this process if left out.

    Every method raises WorkflowRefused, which is a ValueError, for what the state does not allow, with nothing
    called; InvalidInput or RuleViolation for values that could never be taken, with nothing called; and CommandFailed
    when AWR refused or its answer is lost. A write that failed stays pending, and all else is refused until
    `inspect` and `reconcile`. Nothing is retried or replayed. An `expected_revision` that is left out is the newest
    that a context, a preparation, a write or a reconciliation has shown.
    """

    def __init__(
        self,
        project: str | Path,
        *,
        project_id: str,
        state: str | Path,
        transport: Transport | None = None,
        clock: Clock = system_clock,
        make_id: NewId = new_id,
    ) -> None:
        self._desk, self._binding = opened(
            Path(project),
            project_id=project_id,
            file=StateFile(Path(state)),
            transport=transport or InProcessTransport(),
            clock=clock,
            make_id=make_id,
        )

    def begin(
        self, work: str, agent: str, provider: str, model: str, expected_revision: int | None = None
    ) -> dict[str, Any]:
        """Start a session that holds the work."""
        with self._turn() as turn:
            turn.require_phase("new")
            arguments = {
                "agent": agent,
                "provider": provider,
                "model": model,
                "expected_revision": turn.revision(expected_revision),
                "work": work,
                "claim": True,
            }
            return turn.write(
                "session.start",
                arguments,
                then=lambda value: {
                    "session": part(value, "session", "id", kind=str),
                    "work": work,
                    "phase": "active",
                },
            )

    def adopt(self, session: str, work: str) -> dict[str, Any]:
        """Go on with a session that is active already, as itself; nothing is written at AWR."""
        with self._turn() as turn:
            turn.require_phase("new")
            shown, _, _ = turn.read("session.show", {"session": session})
            item, _, _ = turn.read("work.show", {"work": work})
            record = part(shown, "session", kind=dict)
            ours = record.get("work_item_id") == part(item, "work", "id", kind=str)
            if not ours or record.get("status") != "active":
                raise WorkflowRefused(
                    "this session cannot be adopted",
                    got="a session of other work" if not ours else "a session that is not active",
                    expected="an active session that is bound to the work",
                    next_step="resume it into a new session with awr session resume, and adopt that one",
                )
            turn.save(
                session=session,
                work=work,
                phase="active",
                checkpoint=record.get("last_checkpoint_id"),
                last_revision=part(item, "project_revision", kind=int),
            )
            return shown

    def context(self) -> dict[str, Any]:
        """Compile the required context and give it out; it has yet to be acknowledged."""
        with self._turn() as turn:
            turn.require_phase("active")
            return compiled(turn)

    def prepare(
        self,
        observation: dict[str, Any] | None = None,
        goals: Iterable[str] = (),
        response_view: View = "action",
    ) -> dict[str, Any]:
        """Give out the context with the work's state and, in the action view, the one next action.

        An observation of the work is recorded first where the build manages work, and so is the one before where
        the record no longer holds.
        """
        with self._turn() as turn:
            turn.require_phase("active")
            given = None if observation is None else plain(observation)
            return prepared(turn, observation=given, goals=tuple(goals), view=response_view)

    def acknowledge(self, context_hash: str) -> dict[str, Any]:
        """Attest that the agent has consumed the context that was given out last."""
        with self._turn() as turn:
            turn.require_phase("active")
            context = require_delivered(turn, context_hash)
            turn.save(context=acknowledged(context))
            return {"ok": True, "context_hash": context.context_hash, "acknowledged": True, "basis": "caller"}

    def checkpoint(
        self, context_hash: str, digest_text: str, next_action: str, expected_revision: int | None = None
    ) -> dict[str, Any]:
        """Save where the session stands, under the acknowledged context."""
        with self._turn() as turn:
            turn.require_phase("active")
            require_acknowledged(turn, context_hash)
            arguments = {
                "context_hash": context_hash,
                "digest": digest_text,
                "next_action": next_action,
                "session": turn.state.session,
                "expected_revision": turn.revision(expected_revision),
            }
            return turn.write(
                "session.checkpoint",
                arguments,
                then=lambda value: {"checkpoint": part(value, "checkpoint", "id", kind=str)},
            )

    def progress(
        self,
        reason: str,
        next_action: str,
        expected_revision: int | None = None,
        response_view: View = "full",
    ) -> dict[str, Any]:
        """Begin the work, or say how it goes on; needs an acknowledged context.

        A `response_view` other than full is sent only to a build that offers it for this command.
        """
        with self._turn() as turn:
            turn.require_phase("active")
            require_acknowledged(turn)
            arguments = {
                "work": turn.state.work,
                "session": turn.state.session,
                "reason": reason,
                "next_action": next_action,
                "expected_revision": turn.revision(expected_revision),
            }
            offered = turn.desk.offer.has_for("workflow.response_summary", "work progress")
            options = {"response_view": "summary"} if response_view != "full" and offered else {}
            return turn.write("transition.progress", arguments, options=options)

    def evidence(self, draft: dict[str, Any], expected_revision: int | None = None) -> dict[str, Any]:
        """Record evidence of this work; the draft has the fields of `awr evidence add`."""
        with self._turn() as turn:
            turn.require_phase("active")
            given = {"work": turn.state.work, **plain(draft)}
            if given["work"] != turn.state.work:
                raise WorkflowRefused(
                    "the evidence is about other work",
                    got="another work item",
                    expected="this workflow's own, or none named",
                    next_step="record it in the workflow of that work",
                )
            return turn.write("evidence.add", {**given, "expected_revision": turn.revision(expected_revision)})

    def observe_compaction(
        self,
        observation: dict[str, Any],
        policy: dict[str, Any] | None = None,
        expected_revision: int | None = None,
    ) -> dict[str, Any]:
        """Record one completed native compaction, and return the assessment with its card."""
        with self._turn() as turn:
            turn.desk.offer.require("client.compaction")
            turn.require_phase("active", "work_completed")
            arguments = {
                "session": turn.state.session,
                "expected_revision": turn.revision(expected_revision),
                "observation": plain(observation),
                "policy": None if policy is None else plain(policy),
            }
            return turn.write("compaction.observe", arguments)

    def compaction(self, include_observation: bool = False) -> dict[str, Any]:
        """Return the assessment of the latest compaction. Allowed while a write is pending; changes no state."""
        with self._turn(pending_allowed=True) as turn:
            turn.desk.offer.require("client.compaction")
            turn.require_phase("active", "work_completed", "ended")
            arguments = {"session": turn.state.session, "include_observation": include_observation}
            return turn.read("compaction.inspect", arguments)[0]

    def defer_compaction(self, observation_event_id: str, expected_revision: int | None = None) -> dict[str, Any]:
        """Postpone the advice about the latest compaction, once the user has."""
        with self._turn() as turn:
            turn.desk.offer.require("client.compaction")
            turn.require_phase("active", "work_completed")
            arguments = {
                "session": turn.state.session,
                "observation_event_id": observation_event_id,
                "expected_revision": turn.revision(expected_revision),
            }
            return turn.write("compaction.defer", arguments)

    def finish(self, completion: dict[str, Any], reason: str, expected_revision: int | None = None) -> dict[str, Any]:
        """Complete the work, then end the session.

        Called again after the work was completed and the end failed, it only ends the session.
        """
        with self._turn() as turn:
            turn.require_phase("active", "work_completed")
            completed = None
            if turn.state.phase == "active":
                arguments = {
                    "work": turn.state.work,
                    "session": turn.state.session,
                    "reason": reason,
                    "completion": plain(completion),
                    "expected_revision": turn.revision(expected_revision),
                }
                completed = turn.write("transition.complete", arguments, then=lambda _: {"phase": "work_completed"})
                expected_revision = None
            arguments = {
                "session": turn.state.session,
                "outcome": "ended",
                "expected_revision": turn.revision(expected_revision),
            }
            ended = turn.write("session.end", arguments, then=lambda _: {"phase": "ended", "context": None})
            return {
                "ok": True,
                "project_revision": turn.state.last_revision,
                "completed": completed,
                "ended": ended,
            }

    def inspect(self, session: str | None = None, work: str | None = None) -> dict[str, Any]:
        """Return what AWR knows that bears on a pending write, with the hash that `reconcile` names."""
        with self._turn(pending_allowed=True) as turn:
            return inspected(turn, session=session, work=work)

    def reconcile(
        self, inspection_sha256: str, reason: str, session: str | None = None, work: str | None = None
    ) -> dict[str, Any]:
        """Go on after a write whose answer is lost or that was refused, by what the last inspection showed."""
        with self._turn(pending_allowed=True) as turn:
            return reconciled(turn, inspection_sha256=inspection_sha256, reason=reason, session=session, work=work)

    @contextmanager
    def _turn(self, *, pending_allowed: bool = False) -> Iterator[Turn]:
        desk = self._desk
        try:
            with desk.file.locked():
                state = bound_state(desk.file, self._binding)
                desk.transport.verify()
                if state.pending is not None and not pending_allowed:
                    raise WorkflowRefused(
                        "a write is pending",
                        got=f"{state.pending.operation} with the outcome {state.pending.outcome}",
                        expected="no pending write",
                        next_step="inspect what AWR knows of it, then reconcile; never repeat it",
                    )
                yield Turn(desk, state)
        except OSError as error:
            raise io_error(error) from error


if __name__ == "__main__":
    from awr.client.workflow_cli import main

    sys.exit(main(sys.argv[1:]))
