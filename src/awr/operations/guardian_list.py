"""The Guardian's operations, as the one list has them. None is an agent's tool: its record is about every agent."""

from __future__ import annotations

from awr.operations.definition import Operation

__all__ = ["GUARDIAN"]

GUARDIAN: tuple[Operation, ...] = (
    Operation(
        name="guardian.sessions",
        target="awr.operations.guardian:sessions",
        command="guardian sessions",
        summary="List the sessions that the Guardian has answered.",
        scope="folder",
        operator=True,
        example="awr guardian sessions --database guardian.db",
    ),
    Operation(
        name="guardian.show",
        target="awr.operations.guardian:show",
        command="guardian show",
        summary="Show one session and its chain: what was asked, and what was decided.",
        scope="folder",
        operator=True,
        example="awr guardian show 5c3f1b8e-9a0d-4c2e-8f4b-2d6a7e9c1b30 --database guardian.db",
    ),
    Operation(
        name="guardian.verify",
        target="awr.operations.guardian:verify_chains",
        command="guardian verify",
        summary="Prove that chains are as they were written, and that they hold every head that was noted down.",
        scope="folder",
        operator=True,
        example="awr guardian verify --database guardian.db",
    ),
    Operation(
        name="guardian.export",
        target="awr.operations.guardian:export",
        command="guardian export",
        summary="Write one chain to a file, as lines of JSON that anybody can check.",
        scope="folder",
        operator=True,
        example="awr guardian export 5c3f1b8e-9a0d-4c2e-8f4b-2d6a7e9c1b30 --output chain.jsonl",
    ),
    Operation(
        name="guardian.schema",
        target="awr.operations.guardian:schema",
        command="guardian schema",
        summary="Print the JSON Schema of a hook's payload.",
        scope="none",
        operator=True,
        example="awr guardian schema steps/preCompact",
    ),
)
