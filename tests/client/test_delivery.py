"""An answer that is not what it should be: nothing is given out, and a write stays pending."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from awr.client import InProcessTransport
from awr.client.files import read_private
from awr.client.transport import Answer, Receipts
from awr.errors import CommandFailed, Io, WorkflowRefused
from awr.ids import Clock
from tests.support.contexts import note
from tests.support.workflows import acknowledged, begun, observation, state_of

Change = Callable[[dict[str, Any]], Any]


class ChangingTransport(InProcessTransport):
    """The real operations, with an answer changed on its way, as a faulty build could give it."""

    def __init__(self, operation: str, change: Change) -> None:
        self._operation = operation
        self._change = change

    def call(
        self, operation: str, arguments: Mapping[str, Any], *, project: Path, receipts: Receipts, clock: Clock
    ) -> Answer:
        answer = super().call(operation, arguments, project=project, receipts=receipts, clock=clock)
        if operation == self._operation and answer.value is not None:
            self._change(answer.value)
        return answer


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda value: value["completeness"].update(complete=False), "not complete"),
        (lambda value: value["completeness"].update(complete="yes"), "not complete"),
        (lambda value: value.update(session_id="another"), "another session"),
        (lambda value: value.update(session_id=None), "another session"),
        (lambda value: value["work_context"]["identity"].update(work_item_key="report"), "another work"),
        (lambda value: value["work_context"]["identity"].update(project_id="another"), "another project"),
        (lambda value: value["work_context"].update(context_hash="AB"), "another form"),
        (lambda value: value["work_context"].update(context_hash=None), "NoneType"),
        (lambda value: value.update(work_context=None), "NoneType"),
        (lambda value: value.update(project_revision=True), "bool"),
    ],
)
def test_a_context_of_anything_else_is_not_given_out(tmp_path: Path, change: Change, said: str) -> None:
    project, workflow = begun(tmp_path, transport=ChangingTransport("context.compile", change))
    with pytest.raises(WorkflowRefused) as refused:
        workflow.context()
    assert said in str(refused.value.details["got"])
    assert state_of(project)["context"] is None


def test_a_success_without_its_facts_leaves_the_write_pending(tmp_path: Path) -> None:
    transport = ChangingTransport("session.checkpoint", lambda value: value.pop("checkpoint"))
    project, workflow = begun(tmp_path, transport=transport)
    with pytest.raises(WorkflowRefused, match="lacks what the workflow needs"):
        workflow.checkpoint(acknowledged(workflow), "d", "n")
    assert state_of(project)["pending"]["outcome"] == "returned"
    seen = workflow.inspect()
    workflow.reconcile(seen["inspection_sha256"], "the checkpoint is on record")
    assert state_of(project)["checkpoint"] == seen["facts"]["session"]["session"]["last_checkpoint_id"]


def test_a_view_of_progress_is_sent_to_a_build_that_lists_it(tmp_path: Path) -> None:
    def offer(value: dict[str, Any]) -> None:
        for one in value["capabilities"]:
            if one["id"] == "workflow.response_summary":
                one["commands"].append("work progress")

    project, workflow = begun(tmp_path, transport=ChangingTransport("capabilities", offer))
    acknowledged(workflow)
    # This build has no such field, so its own refusal shows that it was sent.
    with pytest.raises(CommandFailed) as failed:
        workflow.progress("Begun", "Go on", response_view="summary")
    assert failed.value.details["got"] == "InvalidInput"
    assert state_of(project)["pending"]["args"]["response_view"] == "summary"


def test_an_inspection_that_gets_no_answer_says_so_and_keeps_what_is_pending(tmp_path: Path) -> None:
    class SilentTransport(InProcessTransport):
        silent = False

        def call(self, operation: str, arguments: Mapping[str, Any], **more: Any) -> Answer:
            answer = super().call(operation, arguments, **more)
            return msgspec.structs.replace(answer, known=False) if self.silent else answer

    transport = SilentTransport()
    project, workflow = begun(tmp_path, transport=transport)
    note(project)
    with pytest.raises(CommandFailed):
        workflow.observe_compaction(observation())
    before = state_of(project)
    transport.silent = True
    with pytest.raises(CommandFailed, match="nobody knows"):
        workflow.inspect()
    assert state_of(project) == before


def test_a_folder_that_cannot_be_written_to_is_an_error_of_the_tree(tmp_path: Path) -> None:
    project, workflow = begun(tmp_path)
    receipts = project.root.parent / "state" / "receipts"
    receipts.rename(receipts.with_name("moved"))
    with pytest.raises(Io):
        workflow.context()
    receipts.with_name("moved").rename(receipts)
    workflow.context()


def test_only_a_regular_file_of_bounded_size_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    assert read_private(tmp_path / "file", limit=5) == b"12345"
    assert read_private(tmp_path / "nothing", limit=5) is None
    for path, limit in ((tmp_path / "file", 4), (tmp_path, 5)):
        with pytest.raises(WorkflowRefused, match="not what the workflow wrote"):
            read_private(path, limit=limit)
