"""Run the console examples of a page, and render the page again with what they really print.

A ```console block holds commands behind `$ ` and the output under each. All blocks of a page share one shell in one
temporary folder, so a page reads like one session at the terminal. `python -m tests.docs.console` writes the rendered
pages back; the test compares them, with ids, times, hashes and folders made equal.

The ```python blocks of a page are one program. It runs in the same shell where the first of them stands, must print
nothing, and says by `assert` what comes out.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

__all__ = ["ROOT", "environment", "normalized", "pages", "rendered"]

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK = "\x1e"
_SAME = (
    (re.compile(r"\b[0-9A-HJKMNP-TV-Z]{26}\b"), "ID"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "HASH"),
    (re.compile(r"\b[0-9a-f]{12}\b"), "SHORT"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"), "TIME"),
    (re.compile(r"\b17\d{11}\b|\b18\d{11}\b"), "MS"),
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"/[^\s\"']*awr-docs-[^/\s\"']*"), "FOLDER"),
)


def pages() -> list[Path]:
    """Return every page of the documentation, the README first."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def normalized(text: str) -> str:
    """Make equal what differs from run to run."""
    for pattern, name in _SAME:
        text = pattern.sub(name, text)
    return text


def rendered(page: str) -> str:
    """Return the page with the real output under each command. Raise AssertionError where a command fails."""
    blocks = list(_BLOCK.finditer(page))
    if not blocks:
        return page
    runs = _runs([(block.group(1), block.group(2)) for block in blocks])
    outputs = _outputs([command for commands in runs for command in commands])
    pieces, end = [], 0
    for block, commands in zip(blocks, runs, strict=True):
        pieces.append(page[end : block.start()])
        if block.group(1) == "console":
            shown = ["$ " + command.replace("\n", "\n> ") + "\n" + next(outputs) for command in commands]
            pieces += ["```console\n", *shown, "```"]
        else:
            printed = [next(outputs) for _ in commands]
            assert not any(printed), "".join(printed)
            pieces.append(block.group(0))
        end = block.end()
    return "".join([*pieces, page[end:]])


def _runs(blocks: list[tuple[str, str]]) -> list[list[str]]:
    """Return the commands that each block stands for: the first Python block is all of them."""
    program = "".join(text for language, text in blocks if language == "python")
    runs, told = [], False
    for language, text in blocks:
        if language == "console":
            runs.append(list(_commands(text)))
        else:
            runs.append([] if told else [f"python3 - <<'THE-PROGRAM'\n{program}THE-PROGRAM"])
            told = True
    return runs


def environment(folder: Path) -> dict[str, str]:
    """Return an environment in which nothing of the real home is seen."""
    return {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
        "COLUMNS": "100",
        "PYTHONWARNINGS": "error",
        # The code beside the pages, wherever another copy of it may be installed.
        "PYTHONPATH": str(ROOT / "src"),
    }


def _commands(block: str) -> Iterator[str]:
    """Yield the commands: a line behind `$ ` and the lines behind `> ` that go on with it."""
    command: list[str] = []
    for line in block.splitlines():
        if line.startswith("> ") and command:
            command.append(line[2:])
            continue
        if command:
            yield "\n".join(command)
        command = [line[2:]] if line.startswith("$ ") else []
    if command:
        yield "\n".join(command)


def _outputs(commands: list[str]) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="awr-docs-") as name:
        folder = Path(name).resolve()
        # The examples read as if typed at the root of a clone.
        (folder / "home").mkdir()
        shutil.copytree(ROOT / "docs" / "examples", folder / "clone" / "docs" / "examples")
        script = "".join(f"{command}\nprintf '{_MARK}%d{_MARK}' $?\n" for command in commands)
        done = subprocess.run(
            ["bash", "-c", "exec 2>&1\n" + script],
            cwd=folder / "clone",
            env=environment(folder),
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
    parts = done.stdout.split(_MARK)
    for command, output, code in zip(commands, parts[::2], parts[1::2], strict=False):
        refused = "error: " in output
        assert (code == "0") != refused, f"$ {command}\nexit {code}\n{output}"
        yield "".join(f"{line.rstrip()}\n" for line in output.splitlines())


def main() -> None:
    """Write every page again with what its commands print now."""
    for page in pages():
        text = page.read_text()
        new = rendered(text)
        if normalized(new) != normalized(text):
            page.write_text(new)
            sys.stdout.write(f"wrote {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
