"""A hook starts a process for every event, and pays for what it imports."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import sys
from awr.client import GuardianClient
from awr.client.acs.settings import Settings
records = []
client = GuardianClient(
    "http://127.0.0.1:1/acs",
    settings=Settings(agent_id="a", methods=("steps/toolCallRequest",)),
    secret=b"k" * 32,
    audit=records.append,
)
client.start()
client.step("steps/toolCallRequest", {"tool": {"name": "t"}, "arguments": {}})
print(*records[0].__struct_fields__[:1], *sorted({name.partition(".")[0] for name in sys.modules}))
"""


def test_the_client_that_waits_loads_no_event_loop_and_no_framework() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], check=True, capture_output=True, text=True)
    reached, *modules = done.stdout.split()
    assert reached == "time", "a step was asked about and recorded"
    heavy = {"asyncio", "anyio", "httpx2", "httpcore2", "mcp", "pydantic", "starlette", "click", "rich", "sqlite3"}
    assert not heavy & set(modules)


def test_the_names_of_the_package_lead_to_the_clients() -> None:
    import awr
    from awr.client.acs.async_guardian_client import AsyncGuardianClient
    from awr.client.acs.guardian_client import GuardianClient

    assert awr.GuardianClient is GuardianClient
    assert awr.AsyncGuardianClient is AsyncGuardianClient
