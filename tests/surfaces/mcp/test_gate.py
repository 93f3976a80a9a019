"""The gate in front of the threads that answer calls."""

from __future__ import annotations

import threading

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from awr.operations.calling import Answer
from awr.surfaces.mcp.server import Gate

DONE = Answer({"ok": True}, None)


def test_a_call_given_up_before_it_begins_is_not_carried_out_and_leaves_room() -> None:
    carried_out = []

    def act() -> Answer:
        carried_out.append(1)
        return DONE

    async def main() -> None:
        gate = Gate(1)
        for _ in range(3):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await gate.run(act)
        assert carried_out == []
        assert await gate.run(act) == DONE
        assert gate.drain(0.0)

    anyio.run(main)


def test_a_call_that_fails_leaves_room() -> None:
    def fail() -> Answer:
        raise ZeroDivisionError

    async def main() -> None:
        gate = Gate(1)
        with pytest.raises(ZeroDivisionError):
            await gate.run(fail)
        assert await gate.run(lambda: DONE) == DONE

    anyio.run(main)


def test_one_call_more_than_there_is_room_for_is_refused_at_once() -> None:
    hold = threading.Event()

    def act() -> Answer:
        hold.wait(10)
        return DONE

    async def main() -> None:
        gate = Gate(2)
        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(gate.run, act)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(MCPError) as refused:
                await gate.run(lambda: DONE)
            hold.set()
        assert refused.value.error.code == -32603
        assert "receipt" in refused.value.error.message

    anyio.run(main)
