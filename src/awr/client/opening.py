"""Opening a workflow: its folders, what the AWR at hand offers, and what the state is bound to."""

from __future__ import annotations

from pathlib import Path

import msgspec

from awr.client.negotiation import REQUIRED, Offer, negotiated
from awr.client.state import State, StateFile
from awr.client.transport import Transport
from awr.client.turn import Desk, failure, part
from awr.errors import WorkflowRefused, io_error
from awr.ids import Clock, NewId
from awr.project import existing_folder

__all__ = ["bound_state", "opened"]

Binding = dict[str, str]


def opened(
    project: Path, *, project_id: str, file: StateFile, transport: Transport, clock: Clock, make_id: NewId
) -> tuple[Desk, Binding]:
    """Negotiate, and make the state if there is none yet, after the project's id was found to be the stated one.

    Raise WorkflowRefused for a build, a state or a project that is not the one that is meant.
    """
    root = existing_folder(project)
    binding = {**transport.identity(), "project": str(root), "project_id": project_id}
    desk = Desk(file=file, transport=transport, project=root, offer=Offer({}), clock=clock, make_id=make_id)
    try:
        file.make_folders()
        with file.locked():
            known = file.load()
            if known is not None:
                _require_binding(known, binding)
            answer, _ = desk.ask("capabilities", {"protocol_version": 1, "require": list(REQUIRED)})
            offer = negotiated(answer, version=binding["version"])
            desk = msgspec.structs.replace(desk, offer=offer)
            if known is None:
                file.save(_first_state(desk, binding))
    except OSError as error:
        raise io_error(error) from error
    return desk, binding


def bound_state(file: StateFile, binding: Binding) -> State:
    """Return the state as it is now. Raise WorkflowRefused when it is gone, or bound to something else."""
    state = file.load()
    if state is None:
        raise WorkflowRefused(
            "the state file is gone",
            expected="the file that this workflow wrote",
            next_step="put it back, or begin with a new state file and adopt the session",
        )
    _require_binding(state, binding)
    return state


def _require_binding(state: State, binding: Binding) -> None:
    """Raise WorkflowRefused for a state that was made with another program, version or project."""
    names = sorted(
        name for name in state.binding.keys() | binding.keys() if state.binding.get(name) != binding.get(name)
    )
    if names:
        raise WorkflowRefused(
            "the state belongs to another AWR or another project",
            got="another " + " and ".join(names),
            expected="the program, version and project that the state was made with",
            next_step="begin with a new state file and adopt the session",
        )


def _first_state(desk: Desk, binding: Binding) -> State:
    answer, receipts = desk.ask("project.status", {})
    if not answer.ok or answer.value is None:
        raise failure("project.status", answer, receipts)
    if answer.value.get("project_id") != binding["project_id"]:
        raise WorkflowRefused(
            "the folder holds another project",
            got="another project_id",
            expected="the id that was stated",
            next_step="compare it with the project_id in awr --json status",
        )
    return State(binding=binding, last_revision=part(answer.value, "project_revision", kind=int))
