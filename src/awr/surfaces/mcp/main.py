"""Where the `awr-mcp` program starts. What it needs is imported once its arguments make sense."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

__all__ = ["DEFAULT_LISTEN", "main"]

DEFAULT_LISTEN = "127.0.0.1:8080"


def main() -> None:
    """Serve one project on stdio, or those of a registry on HTTP, and leave with an exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Return 0 after a clean end, 1 when serving could not start, 2 for a wrong call."""
    parser = _parser()
    try:
        given = parser.parse_args(arguments)
        if given.listen is not None and given.registry is None:
            parser.error("--listen is for --registry alone: without a registry the project is served on stdio")
    except SystemExit as leaving:
        return int(leaving.code or 0)
    if given.registry is not None:
        from awr.surfaces.http.main import serve_registry

        return serve_registry(Path(given.registry), listen=given.listen or DEFAULT_LISTEN)
    from awr.errors import AwrError, io_error

    try:
        from awr.project import existing_folder

        root = existing_folder(Path(given.project or "."))
        from awr.surfaces.mcp.stdio import serve_stdio

        serve_stdio(root)
        return 0
    except AwrError as error:
        return _refused(error)
    except OSError as error:
        return _refused(io_error(error))
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    from importlib.metadata import version

    parser = argparse.ArgumentParser(
        prog="awr-mcp",
        description="Serve AWR's operations to agents as tools: one project on standard input and output, or the "
        "projects of a registry on HTTP.",
        epilog="Example: awr-mcp --project /srv/billing",
        allow_abbrev=False,
    )
    served = parser.add_mutually_exclusive_group()
    served.add_argument("--project", metavar="PATH", help="the project folder; the present one if left out")
    served.add_argument("--registry", metavar="FILE", help="serve the projects of this registry on HTTP instead")
    parser.add_argument(
        "--listen", metavar="ADDR", help=f"host:port for --registry; {DEFAULT_LISTEN} if left out, port 0 for any"
    )
    parser.add_argument("--version", action="version", version=f"awr-mcp {version('awr')}")
    return parser


def _refused(error: object) -> int:
    import msgspec

    sys.stderr.write(msgspec.json.encode(error.report()).decode() + "\n")  # type: ignore[attr-defined]
    return 1


if __name__ == "__main__":
    main()
