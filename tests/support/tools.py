"""Calling an agent's tools in this process, the way a transport does."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

from awr.operations.calling import Answer
from awr.operations.selection import LOCAL_CLIENT
from awr.project import Project
from awr.surfaces.mcp.calls import call_tool
from awr.surfaces.mcp.catalogue import TOOLS
from awr.surfaces.mcp.ownership import Caller

__all__ = ["LOCAL", "break_finishing", "event_types", "mend_finishing", "use"]

LOCAL = Caller(client=LOCAL_CLIENT, authenticated=False)


def use(project: Project, tool: str, *, caller: Caller = LOCAL, **arguments: Any) -> Answer:
    """Call one tool."""
    return call_tool(lambda: project, TOOLS[tool], arguments, caller=caller)


def event_types(project: Project) -> list[str]:
    """Return the types of all events, oldest first."""
    with project.journal.read() as reader:
        return [row["event_type"] for row in reader.database.rows("SELECT event_type FROM events ORDER BY position")]


def break_finishing(path: Path) -> None:
    """Make the database refuse every record of an answer, as a full disk would at the worst moment."""
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TRIGGER no_answer BEFORE INSERT ON events WHEN NEW.event_type = 'mcp.operation_finished' "
            "BEGIN SELECT RAISE(ABORT, 'no room'); END"
        )
    connection.close()


def mend_finishing(path: Path) -> None:
    """Take that back."""
    with sqlite3.connect(path) as connection:
        connection.execute("DROP TRIGGER no_answer")
    connection.close()
