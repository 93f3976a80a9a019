"""A worked story on a throw-away project: what a compaction did, and the one next action."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path

import click
import msgspec

from awr.errors import AwrError, InvalidInput

__all__ = ["demo"]

#: How much of the bundled transcript is there when the story begins: up to the request after the first compaction.
FIRST_ROWS = 28
WINDOW = 200_000


@click.command(
    "demo",
    help="Play a worked story in a temporary project: report, observations, card, deferral, verified journal.",
    short_help="Play a worked story in a temporary project.",
    epilog="Example: awr demo",
)
@click.option(
    "--keep", type=click.Path(path_type=Path), metavar="DIR", help="Play it in this new folder and keep it."
)
def demo(keep: Path | None) -> None:
    """Play the story. Nothing is left behind unless a folder to keep it in is named."""
    if keep is not None:
        _play_in(_new_folder(keep))
        click.echo(f"\nEverything is in {keep}. Try: awr --project {keep}/project event history")
        return
    with tempfile.TemporaryDirectory(prefix="awr-demo-") as name:
        _play_in(Path(name))
    click.echo("\nThe temporary project is gone. Next: awr report, for the transcripts on this machine.")


def _new_folder(keep: Path) -> Path:
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InvalidInput(
            "the folder to keep the demo in has something in it",
            expected="a folder that does not exist yet, or an empty one",
            next_step="name another folder with --keep",
        )
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _play_in(folder: Path) -> None:
    project, config = folder / "project", folder / "claude"
    transcript = config / "projects" / "-home-dev-parser" / "5b0c7a52-6d0e-4b8e-9a41-3f1d2c7e8a10.jsonl"
    for place in (project, transcript.parent):
        place.mkdir(parents=True)
    (config / "settings.json").write_text(f'{{"autoCompactWindow": {WINDOW}}}\n')
    rows = files("awr.surfaces.cli").joinpath("demo_transcript.jsonl").read_text().splitlines(keepends=True)
    transcript.write_text("".join(rows[:FIRST_ROWS]))
    with _environment(CLAUDE_CONFIG_DIR=str(config)):
        _Story(project, transcript).tell("".join(rows[FIRST_ROWS:]))


class _Story:
    """The steps in order. Each is a real command on the real database."""

    def __init__(self, project: Path, transcript: Path) -> None:
        self._project = project
        self._transcript = transcript
        self._step = 0

    def tell(self, later: str) -> None:
        """Play every step. `later` is what the host writes to its transcript while the work goes on."""
        self._say("A project. One sentence makes its ledger; no YAML has to be written.")
        self._run("init", "--goal", "Ship the parser", "--accept")
        self._say("A session, bound to a work item. It is AWR's record; the coding agent runs as it always did.")
        session = self._start_session()
        self._say("The agent compacted by itself. This is what the host left on disk, read without its text.")
        self._run("report", str(self._transcript))
        self._say(
            "The transcript proves the numbers, and the host's own setting the window, so the compaction goes on "
            "record. It left the context above the threshold: the card says what to do, once."
        )
        self._run("session", "compaction", "import", "--session", session, "--transcript", str(self._transcript))
        self._say("The user would rather go on. A deferral silences this advice until the next compaction.")
        state = self._inspect(session)
        self._run(
            *("session", "compaction", "defer", "--session", session),
            *("--observation-event-id", str(state["observation_event_id"])),
            *("--expected-revision", str(state["project_revision"])),
        )
        self._say(
            "Work goes on: a compaction by hand, then an automatic one that brought the context well below the "
            "threshold. What is recorded already is recognised, and only what is new is added."
        )
        with self._transcript.open("a") as file:
            file.write(later)
        self._run("session", "compaction", "import", "--session", session, "--transcript", str(self._transcript))
        self._say("The whole story of this transcript, with the footprint of each request.")
        self._run("report", str(self._transcript))
        self._say("Everything above is one hash-chained journal. It proves itself.")
        self._run("journal", "verify")

    def _start_session(self) -> str:
        arguments = ("--work", "task-1", "--agent", "demo-agent", "--provider", "anthropic", "--model", "opus")
        self._run("session", "start", *arguments, "--expected-revision", str(self._revision()))
        from awr.operations.session import ListRequest, listing
        from awr.project import Project

        return listing(Project.open(self._project), ListRequest()).sessions[0].id

    def _revision(self) -> int:
        from awr.project import Project

        with Project.open(self._project).journal.read() as reader:
            return reader.project_revision

    def _inspect(self, session: str) -> dict[str, object]:
        from awr.operations.compaction import InspectRequest, inspect
        from awr.project import Project

        found: dict[str, object] = msgspec.to_builtins(
            inspect(Project.open(self._project), InspectRequest(session=session))
        )
        return found

    def _say(self, text: str) -> None:
        self._step += 1
        click.echo()
        click.echo(
            click.wrap_text(click.style(f"{self._step}. {text}", bold=True), width=100, subsequent_indent="   ")
        )

    def _run(self, *arguments: str) -> None:
        from awr.surfaces.cli.app import run

        shown = " ".join(f'"{word}"' if " " in word else _shortened(word) for word in arguments)
        click.echo(click.style(f"$ awr {shown}", fg="cyan"))
        code = run(["--project", str(self._project), *arguments])
        if code != 0:
            raise AwrError("a step of the demo failed", got=f"exit code {code}", next_step="please report this")


def _shortened(word: str) -> str:
    return Path(word).name if word.startswith("/") else word


@contextmanager
def _environment(**values: str) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
