"""Starting a Guardian from the command line, on HTTP or on standard input and output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from awr.surfaces.cli.commands import Settings, shared_options

__all__ = ["serve_command", "stdio_command"]

DEFAULT_LISTEN = "127.0.0.1:8787"

_File = click.Path(path_type=Path)

_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    click.option(
        "--secret-file",
        "secret_files",
        type=_File,
        multiple=True,
        metavar="FILE",
        help="A file that only you may read; its bytes, less one final line break, are the secret. May be repeated.",
    ),
    click.option(
        "--secret-env",
        "secret_variables",
        multiple=True,
        metavar="NAME",
        help="The environment variable that holds the secret, instead of a file. May be repeated.",
    ),
    click.option(
        "--key-id",
        "key_ids",
        multiple=True,
        metavar="ID",
        help="What clients call the secret at the same place; a single one is `default`. May be repeated.",
    ),
    click.option(
        "--policy",
        default="observe",
        metavar="PACK",
        help="What decides: a pack of AWR's or of the operator's place, or a path with a slash; `observe`, which "
        "allows every step and records it, if left out.",
    ),
    click.option(
        "--policy-sha256",
        metavar="HASH",
        help="The hash that the pack must have; inside of the project folder it must be pinned so.",
    ),
    click.option(
        "--trust",
        type=_File,
        metavar="FILE",
        help="The operator's trust map; awr/trust.toml in the operator's place, where there is one, if left out.",
    ),
    click.option(
        "--trust-sha256",
        metavar="HASH",
        help="The hash that the trust map must have; inside of the project folder it must be pinned so.",
    ),
    click.option(
        "--database",
        type=_File,
        metavar="FILE",
        help="Where the record lies; the project's database if left out. It is made when it is not there. Its path "
        "counts from the project folder.",
    ),
    click.option(
        "--on-decision-failure",
        "posture",
        type=click.Choice(["proceed", "deny"]),
        default="proceed",
        help="What clients are told to do where no decision reaches them; `proceed` if left out.",
    ),
)


def _guardian_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command(
    "serve",
    help="Answer requests of the Agent Control Standard on HTTP, at /acs, until a signal ends it.",
    short_help="Answer ACS requests on HTTP.",
    epilog="Example: awr guardian serve --secret-file acs.secret --database acs.db",
)
@click.option(
    "--listen",
    default=DEFAULT_LISTEN,
    metavar="ADDR",
    help=f"Where to listen, as host:port; {DEFAULT_LISTEN} if left out, port 0 for any free one.",
)
@_guardian_options
@click.pass_obj
def serve_command(settings: Settings, /, listen: str, **options: Any) -> None:
    """Answer until a signal ends it."""
    from awr.surfaces.acs.main import serve
    from awr.surfaces.acs.options import setup_from

    serve(setup_from(project=settings.project, **options), listen=listen)


@click.command(
    "stdio",
    help="Answer requests of the Agent Control Standard on standard input and output, each framed by its "
    "Content-Length, until the input ends.",
    short_help="Answer ACS requests on standard input and output.",
    epilog="Example: awr guardian stdio --secret-file acs.secret --database acs.db",
)
@_guardian_options
@click.pass_obj
def stdio_command(settings: Settings, /, **options: Any) -> int:
    """Answer until the input ends. Return the exit code."""
    from awr.surfaces.acs.options import setup_from
    from awr.surfaces.acs.stdio import serve_stdio

    return serve_stdio(setup_from(project=settings.project, **options))


for _command in (serve_command, stdio_command):
    _command.params += shared_options()
