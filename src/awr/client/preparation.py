"""Fetching what an agent must know, with the nearest that the AWR at hand offers."""

from __future__ import annotations

from typing import Any

from awr.client.delivery import deliver
from awr.client.negotiation import View
from awr.client.turn import Turn, part
from awr.domain.management import ManagementObservation
from awr.operations.requests import convert_request

__all__ = ["compiled", "prepared"]


def compiled(turn: Turn, *, goals: tuple[str, ...] = ()) -> dict[str, Any]:
    """Compile the session's context and give it out. What was given out before no longer counts, come what may."""
    turn.save(context=None)
    arguments = {"work": turn.state.work, "session": turn.state.session, "goals": list(goals) or None}
    value, answer, receipts = turn.read("context.compile", arguments)
    revision = part(value, "project_revision", kind=int)
    deliver(turn, value, answer=answer, receipts=receipts, revision=revision)
    return value


def prepared(turn: Turn, *, observation: dict[str, Any] | None, goals: tuple[str, ...], view: View) -> dict[str, Any]:
    """Prepare the work and give its context out; record what the host observed, if management is offered."""
    offer = turn.desk.offer
    if observation is not None:
        convert_request(observation, ManagementObservation, what="the observation")
    if not offer.has("workflow.prepare"):
        value = compiled(turn, goals=goals)
        return {
            "ok": True,
            "project_revision": value["project_revision"],
            "context": value,
            "workflow_path": "legacy",
            "management_available": False,
            "observation_recorded": False,
        }
    view = offer.view(view)
    body = _prepare(turn, goals=goals, view=view)
    manageable = offer.has("work.management")
    record = _recorded(turn, body, observation) if manageable else None
    if record is not None and view == "action":
        # The record changes the assessment that the card was chosen by.
        body = _prepare(turn, goals=goals, view=view)
    found = {
        **body,
        "workflow_path": "prepare",
        "management_available": manageable,
        "observation_recorded": record is not None,
    }
    return found if record is None else {**found, "management_record": record}


def _prepare(turn: Turn, *, goals: tuple[str, ...], view: View) -> dict[str, Any]:
    turn.save(context=None)
    arguments = {
        "work": turn.state.work,
        "session": turn.state.session,
        "goals": list(goals) or None,
        # The full view is what every build answers with when none is asked for.
        "response_view": None if view == "full" else view,
    }
    body, answer, receipts = turn.read("work.prepare", arguments)
    report = part(body, "context", kind=dict)
    deliver(turn, report, answer=answer, receipts=receipts, revision=part(body, "project_revision", kind=int))
    return body


def _recorded(turn: Turn, body: dict[str, Any], observation: dict[str, Any] | None) -> dict[str, Any] | None:
    """Record an observation, the new one or the one before where the record no longer holds; else None."""
    assessment = part(body, "management", kind=dict)
    if observation is None and assessment.get("record_required") is True:
        observation = assessment.get("observation")
    if observation is None:
        return None
    arguments = {
        "work": turn.state.work,
        "session": turn.state.session,
        "expected_revision": turn.state.last_revision,
        "request_key": f"workflow/{turn.desk.make_id(turn.desk.clock())}",
        "contract_fingerprint": part(assessment, "contract_fingerprint", kind=str),
        "observation": observation,
    }
    return turn.write("work.manage", arguments)
