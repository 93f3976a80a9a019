"""The loop of a host: begin, prepare, acknowledge, work, report compactions, checkpoint, finish.

Every write is put down as pending before it is sent, is sent once, and stays pending when it was refused or got no
answer: then the host looks (`inspect`) and says what it found (`reconcile`). Nothing is repeated on its own.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from awr.client.negotiation import Abilities, negotiate
from awr.client.settling import settled_fields, summary
from awr.client.state import Context, Done, Pending, State, StateFile
from awr.client.transport import CallFailed, Transport, WorkflowError

__all__ = ["Workflow"]


class Workflow:
    """One session on one work item, as its host drives it.

    `state_path` names the file in which the loop remembers itself; its folder is made private. Without `binary` the
    operations are called in this process; with `binary`, its `sha256` and its `version` the pinned program is run,
    and given up after `timeout` seconds.

    Every method answers with the JSON object that AWR gave. Raise WorkflowError when the loop refuses a step, and
    CallFailed when AWR refused it or gave no answer.
    """

    def __init__(
        self,
        *,
        project: Path | str,
        project_id: str,
        state_path: Path | str,
        binary: Path | str | None = None,
        sha256: str | None = None,
        version: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        self._file = StateFile(Path(state_path))
        root = Path(project).resolve()
        self._transport = _transport(root, self._file, binary=binary, sha256=sha256, version=version, timeout=timeout)
        self._binding = {**self._transport.identity, "project": str(root), "project_id": project_id}
        self._abilities: Abilities = negotiate(self._transport)
        with self._file.locked():
            state = self._file.read()
            if state is not None:
                self._require_bound(state)
                return
            status = self._transport.call("project.status", {"view": "summary"}).require("project.status")
            if status["project_id"] != project_id:
                raise WorkflowError("the folder holds another project than the one that was stated")
            self._file.write(State(binding=self._binding, last_revision=status["project_revision"]))

    @property
    def state(self) -> State:
        """Return what the loop remembers now."""
        with self._file.locked():
            return self._loaded()

    def begin(
        self, work: str, agent: str, provider: str, model: str, expected_revision: int | None = None
    ) -> dict[str, Any]:
        """Start a session for a work item and claim it."""
        with self._step(phase="new") as state:
            labels = {"work": work, "agent": agent, "provider": provider, "model": model, "claim": True}
            value, state = self._write(state, "session.start", labels, expected_revision)
            session = value["session"]["id"]
            self._file.write(_replace(state, phase="active", session=session, work=work))
            return value

    def adopt(self, session: str, work: str) -> dict[str, Any]:
        """Go on with an active session of a work item, whoever began it. Nothing is written to the project."""
        with self._step(phase="new") as state:
            value = self._read("session.show", {"session": session})
            item = self._read("work.show", {"work": work})
            found = value["session"]
            if found["status"] != "active" or found["work_item_id"] != item["work"]["id"]:
                raise WorkflowError("only an active session of that work item can be adopted")
            revision = max(value["project_revision"], item["project_revision"])
            self._file.write(_replace(state, phase="active", session=session, work=work, last_revision=revision))
            return value

    def context(self) -> dict[str, Any]:
        """Compile the required context and deliver it; it has to be acknowledged before work is reported."""
        with self._step(phase="active") as state:
            return self._delivered(state, "context.compile", {"work": state.work, "session": state.session})

    def prepare(
        self,
        observation: dict[str, Any] | None = None,
        goals: Sequence[str] = (),
        response_view: str = "action",
    ) -> dict[str, Any]:
        """Prepare the work and deliver its context with the one next action.

        With an `observation` of how the work has to be managed, that is recorded first, and in the action view the
        work is prepared once more, so that the instruction is current. An AWR without prepared work compiles the
        context alone and says so.
        """
        with self._step(phase="active") as state:
            if "workflow.prepare" not in self._abilities.ids:
                value = self._delivered(state, "context.compile", {"work": state.work, "session": state.session})
                legacy = {"workflow_path": "legacy", "management_available": False, "observation_recorded": False}
                return {**value, **legacy}
            wanted: dict[str, Any] = {"work": state.work, "session": state.session, "goals": list(goals)}
            if {"workflow.action_guidance", "workflow.response_summary"} & self._abilities.ids:
                wanted["response_view"] = self._abilities.view(response_view)
            value = self._delivered(state, "work.prepare", wanted)
            management = value.get("management") or {}
            # A contract that changed since it was managed has to be recorded again, with what is known already.
            known = management.get("observation") if management.get("record_required") else None
            stated = observation or known
            recorded = stated is not None and self._managed(value, stated)
            if recorded and wanted.get("response_view") == "action":
                value = self._delivered(self._loaded(), "work.prepare", wanted)
            return {**value, "observation_recorded": recorded}

    def acknowledge(self, context_hash: str) -> dict[str, Any]:
        """Attest that the delivered context was read. AWR cannot see whether it was."""
        with self._step(phase="active") as state:
            context = self._require_context(state, context_hash)
            acknowledged = msgspec.structs.replace(context, acknowledged=True)
            self._file.write(_replace(state, context=acknowledged))
            return {"ok": True, "context_hash": context_hash, "acknowledged": True, "basis": "caller_attestation"}

    def checkpoint(
        self, context_hash: str, digest_text: str, next_action: str, expected_revision: int | None = None
    ) -> dict[str, Any]:
        """Save where the session stands, from the context that was acknowledged."""
        with self._step(phase="active") as state:
            self._require_acknowledged(state, context_hash)
            arguments = {
                "session": state.session,
                "context_hash": context_hash,
                "digest": digest_text,
                "next_action": next_action,
            }
            value, state = self._write(state, "session.checkpoint", arguments, expected_revision)
            self._file.write(_replace(state, checkpoint=value["checkpoint"]["id"]))
            return value

    def progress(self, reason: str, next_action: str, expected_revision: int | None = None) -> dict[str, Any]:
        """Say how the work goes on; the ledger is written. Needs an acknowledged context."""
        with self._step(phase="active") as state:
            self._require_acknowledged(state)
            arguments = {"work": state.work, "session": state.session, "reason": reason, "next_action": next_action}
            return self._write(state, "transition.progress", arguments, expected_revision)[0]

    def evidence(self, draft: dict[str, Any], expected_revision: int | None = None) -> dict[str, Any]:
        """Record how something was verified. `draft` has the fields of `awr evidence add`."""
        with self._step(phase="active") as state:
            return self._write(state, "evidence.add", {"work": state.work, **draft}, expected_revision)[0]

    def observe_compaction(
        self,
        observation: dict[str, Any],
        policy: dict[str, Any] | None = None,
        expected_revision: int | None = None,
    ) -> dict[str, Any]:
        """Record one completed native compaction as the host measured it; `guidance` is what to do next."""
        self._abilities.require("client.compaction")
        with self._step(phase="active") as state:
            arguments = {"session": state.session, "observation": observation}
            if policy is not None:
                arguments["policy"] = policy
            return self._write(state, "compaction.observe", arguments, expected_revision)[0]

    def compaction(self, include_observation: bool = False) -> dict[str, Any]:
        """Look at the latest compaction. A read, allowed while a write is pending."""
        self._abilities.require("client.compaction")
        with self._file.locked():
            state = self._loaded()
            if state.session is None:
                raise WorkflowError("no session was begun or adopted yet")
            arguments = {"session": state.session, "include_observation": include_observation}
            return self._read("compaction.inspect", arguments)

    def defer_compaction(self, observation_event_id: str, expected_revision: int | None = None) -> dict[str, Any]:
        """Postpone the advice about the latest compaction, because the user said so."""
        self._abilities.require("client.compaction")
        with self._step(phase="active") as state:
            arguments = {"session": state.session, "observation_event_id": observation_event_id}
            return self._write(state, "compaction.defer", arguments, expected_revision)[0]

    def finish(self, completion: dict[str, Any], reason: str, expected_revision: int | None = None) -> dict[str, Any]:
        """Complete the work, then end the session. Called again after the work alone was completed, it only ends."""
        with self._step(phase=("active", "work_completed")) as state:
            completed = None
            if state.phase == "active":
                self._require_acknowledged(state)
                arguments = {
                    "work": state.work,
                    "session": state.session,
                    "reason": reason,
                    "completion": completion,
                }
                completed, state = self._write(state, "transition.complete", arguments, expected_revision)
                state = _replace(state, phase="work_completed")
                self._file.write(state)
                expected_revision = None
            ending = {"session": state.session, "outcome": "ended"}
            ended, state = self._write(state, "session.end", ending, expected_revision)
            self._file.write(_replace(state, phase="ended"))
            return {"ok": True, "completed": completed, "ended": ended}

    def inspect(self, session: str | None = None, work: str | None = None) -> dict[str, Any]:
        """Look at the project as it is, for a host that has to find out what became of a write.

        Name the session and the work where the loop does not know them, as after a lost `begin`.
        """
        with self._file.locked():
            state = self._loaded()
            session, work = session or state.session, work or state.work
            found: dict[str, Any] = {"status": self._read("project.status", {"view": "summary"})}
            found["sessions"] = self._read("session.list", {"limit": 20})["sessions"]
            found["session"] = self._read("session.show", {"session": session}) if session else None
            found["work"] = self._read("work.show", {"work": work}) if work else None
            sha256 = hashlib.sha256(msgspec.json.encode(found, order="sorted")).hexdigest()
            pending = state.pending
            noted = {
                "sha256": sha256,
                "pending": pending.id if pending else None,
                "project_revision": found["status"]["project_revision"],
                "session": summary(found["session"], "session"),
                "work": summary(found["work"], "work"),
            }
            self._file.write(_replace(state, inspection=noted))
            return {"inspection_sha256": sha256, "pending": msgspec.to_builtins(pending), **found}

    def reconcile(
        self, inspection_sha256: str, reason: str, session: str | None = None, work: str | None = None
    ) -> dict[str, Any]:
        """Settle a pending write by what an inspection showed. The host says why; nothing is sent again."""
        with self._file.locked():
            state = self._loaded()
            pending, seen = state.pending, state.inspection
            if pending is None:
                raise WorkflowError("nothing is pending")
            if seen is None or seen["sha256"] != inspection_sha256 or seen["pending"] != pending.id:
                raise WorkflowError("inspect first: this is not the newest inspection of the pending write")
            if not reason.strip():
                raise WorkflowError("say why: what the inspection showed")
            done = Done(
                id=pending.id,
                operation=pending.operation,
                outcome="reconciled",
                project_revision=seen["project_revision"],
                reason=reason,
            )
            settled = _replace(
                state,
                pending=None,
                inspection=None,
                context=None,
                history=(*state.history, done),
                last_revision=seen["project_revision"],
                **settled_fields(state, seen, session=session, work=work),
            )
            self._file.write(settled)
            return {"ok": True, "reconciled": pending.id, "phase": settled.phase, "session": settled.session}

    @contextmanager
    def _step(self, *, phase: str | tuple[str, ...]) -> Iterator[State]:
        """Hold the state for one step that changes something. Raise WorkflowError while a write is pending."""
        with self._file.locked():
            state = self._loaded()
            if state.pending is not None:
                raise WorkflowError(
                    f"{state.pending.operation} is pending with outcome {state.pending.outcome}: "
                    "inspect the project and reconcile before anything else"
                )
            if state.phase not in ((phase,) if isinstance(phase, str) else phase):
                raise WorkflowError(f"this step does not belong to phase {state.phase}")
            yield state

    def _loaded(self) -> State:
        state = self._file.read()
        if state is None:
            raise WorkflowError("the state file is gone")
        self._require_bound(state)
        return state

    def _require_bound(self, state: State) -> None:
        if state.binding != self._binding:
            raise WorkflowError("the state file belongs to another project, program, version or digest")

    def _read(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return self._transport.call(operation, arguments).require(operation)

    def _write(
        self, state: State, operation: str, arguments: dict[str, Any], expected_revision: int | None
    ) -> tuple[dict[str, Any], State]:
        """Send one write, once. Return its value and the state in which it is history."""
        stated = expected_revision if expected_revision is not None else state.last_revision
        pending = Pending(id=uuid4().hex, operation=operation, arguments={**arguments, "expected_revision": stated})
        self._file.write(_replace(state, pending=pending, inspection=None))
        outcome = self._transport.call(operation, pending.arguments)
        try:
            value = outcome.require(operation)
        except CallFailed as failed:
            said = msgspec.structs.replace(
                pending, outcome="refused" if failed.known else "unknown", error=failed.report
            )
            self._file.write(_replace(state, pending=said, inspection=None))
            raise
        revision = value["project_revision"]
        done = Done(id=pending.id, operation=operation, outcome="carried_out", project_revision=revision)
        after = _replace(state, pending=None, inspection=None, history=(*state.history, done), last_revision=revision)
        self._file.write(after)
        return value, after

    def _delivered(self, state: State, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Fetch a context and bind it. What was acknowledged before counts no more, whatever comes back."""
        self._file.write(_replace(state, context=None))
        value = self._read(operation, arguments)
        report = value.get("context", value)
        text = report["work_context"]
        if not report["completeness"]["complete"] or report["session_id"] != state.session:
            raise WorkflowError("the delivered context is not complete, or not this session's")
        name, sha256 = self._file.keep(value)
        context = Context(hash=text["context_hash"], receipt=name, receipt_sha256=sha256)
        self._file.write(_replace(state, context=context, last_revision=value["project_revision"]))
        return value

    def _managed(self, prepared: dict[str, Any], observation: dict[str, Any]) -> bool:
        if "work.management" not in self._abilities.ids:
            return False
        state = self._loaded()
        arguments = {
            "work": state.work,
            "session": state.session,
            "request_key": f"workflow-{uuid4().hex}",
            "contract_fingerprint": prepared["management"]["contract_fingerprint"],
            "observation": observation,
        }
        self._write(state, "work.manage", arguments, None)
        return True

    def _require_context(self, state: State, context_hash: str | None = None) -> Context:
        if state.context is None:
            raise WorkflowError("no context was delivered since the last step that needs a new one; prepare the work")
        if context_hash is not None and context_hash != state.context.hash:
            raise WorkflowError("that is not the hash of the context that was delivered last")
        self._file.require_kept(state.context)
        return state.context

    def _require_acknowledged(self, state: State, context_hash: str | None = None) -> None:
        if not self._require_context(state, context_hash).acknowledged:
            raise WorkflowError("the delivered context was not acknowledged: read it, then acknowledge its hash")


def _transport(
    root: Path, file: StateFile, *, binary: Path | str | None, sha256: str | None, version: str | None, timeout: float
) -> Transport:
    given = (binary, sha256, version)
    if all(one is None for one in given):
        from awr.client.in_process import InProcess

        return InProcess(root)
    if binary is None or sha256 is None or version is None:
        raise WorkflowError("an executable is named by binary, sha256 and version together")
    from awr.client.executable import Executable

    return Executable(
        Path(binary), sha256=sha256, version=version, project=root, receipts=file.receipts, timeout=timeout
    )


def _replace(state: State, **changes: Any) -> State:
    return msgspec.structs.replace(state, **changes)


if __name__ == "__main__":
    from awr.client.commands import main

    sys.exit(main(sys.argv[1:]))
