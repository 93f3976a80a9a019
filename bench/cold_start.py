"""Whole processes of `awr` commands against `python -c pass` of the same interpreter."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.measure import paired, print_figures, process_ms

RUNS = 25
MEANING = (
    "Each figure is a whole process with warm file caches. It does not say how long a first start after a reboot\n"
    "takes, nor how long a command takes on a project with thousands of work items."
)


def main() -> None:
    """Print the start-up cost of reading commands."""
    with tempfile.TemporaryDirectory(prefix="awr-bench-") as name:
        project = Path(name)
        session = _project_with_session(project)
        bare = [sys.executable, "-c", "pass"]
        commands = {
            "awr --json status": ["--json", "status"],
            "awr status": ["status"],
            "awr --json ... inspect": ["--json", "session", "compaction", "inspect", "--session", session],
            "awr session list": ["session", "list"],
            "awr --help": ["--help"],
        }
        for label, arguments in commands.items():
            command = [str(Path(sys.executable).with_name("awr")), "--project", str(project), *arguments]
            measured, baseline, ratio = paired(
                lambda command=command: process_ms(command),  # type: ignore[misc]
                lambda: process_ms(bare),
                runs=RUNS,
            )
            print_figures(label, unit="ms", measured=measured, baseline=baseline, ratio=ratio, budget="<= 9.00")
    print(MEANING)


def _project_with_session(project: Path) -> str:
    awr = [sys.executable, "-m", "awr", "--project", str(project), "--json"]
    subprocess.run([*awr, "init", "--goal", "Measure", "--accept"], check=True, stdout=subprocess.DEVNULL)
    labels = ("--agent", "a", "--provider", "p", "--model", "m")
    started = subprocess.run(
        [*awr, "session", "start", "--work", "task-1", *labels, "--expected-revision", "2"],
        check=True,
        capture_output=True,
    )
    identity: str = json.loads(started.stdout)["session"]["id"]
    return identity


if __name__ == "__main__":
    main()
