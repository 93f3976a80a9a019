"""One command for each operation, its options taken from the request type."""

from __future__ import annotations

import stat
import sys
import types
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
import msgspec

from awr.errors import InvalidInput, NotFound
from awr.operations.registry import Operation
from awr.operations.requests import convert_request, parse_json
from awr.project import Project, existing_folder
from awr.surfaces.cli.output import print_result

__all__ = ["OperationCommand", "OperationGroup", "Settings", "shared_options"]

MAX_INPUT_BYTES = 64 * 1024


class Settings:
    """What the words before and behind a command say to all commands alike."""

    def __init__(self) -> None:
        self.project = Path()
        self.as_json = False


@cache
def shared_options() -> tuple[click.Parameter, ...]:
    """Return the options that stand anywhere on the command line; every command has the very same ones."""
    return (
        click.Option(
            ["--project"],
            type=click.Path(path_type=Path),
            expose_value=False,
            callback=_set_project,
            help="The project folder; the present one if left out.",
        ),
        click.Option(
            ["--json"], is_flag=True, expose_value=False, callback=_set_json, help="Print JSON for programs."
        ),
    )


class OperationCommand(click.Command):
    """A command that imports its operation only when somebody calls it or asks for its help."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(
            operation.command.rpartition(" ")[2],
            help=operation.summary,
            short_help=operation.summary,
            epilog=f"\b\nExample: {operation.example}",
            callback=self._call,
        )
        self._operation = operation
        self._built = False

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the parameters, made from the request type at first use."""
        if not self._built:
            self._built = True
            self.params = [*_request_parameters(self._operation), *_identity(self._operation), *shared_options()]
        return super().get_params(ctx)

    def argument_help(self, name: str) -> str:
        """Return what an argument means; click shows help for options only."""
        fields = msgspec.structs.fields(self._operation.request_type())
        field = next(field for field in fields if field.name == name)
        return _without_wrapping(field.type)[1].description or ""

    def _call(self, **values: Any) -> None:
        settings = click.get_current_context().find_object(Settings)
        assert settings is not None
        operation = self._operation
        request_id = values.pop("request_id", None) if operation.identified else None
        function = operation.function()
        if operation.scope == "project":
            # A folder that is no project is said first, whatever else is wrong with the call.
            project = Project.open(settings.project)
        request, given = _request(operation, values, root=settings.project)
        if request_id is not None:
            from awr.surfaces.cli.identified import print_identified  # few commands are named

            print_identified(operation, project, request, given, request_id=request_id, as_json=settings.as_json)
            return
        if operation.scope == "project":
            result = function(project, request)
        elif operation.scope == "folder":
            result = function(existing_folder(settings.project), request)
        else:
            result = _watched(operation, request, as_json=settings.as_json)
        print_result(operation.name, result, as_json=settings.as_json)


class OperationGroup(OperationCommand, click.Group):
    """A command that has commands below it: `awr doctor`, and `awr doctor repair`."""

    def __init__(self, operation: Operation) -> None:
        super().__init__(operation)
        self.invoke_without_command = True
        self.no_args_is_help = False
        self.subcommand_metavar = "[COMMAND] [ARGS]..."

    def _call(self, **values: Any) -> None:
        if click.get_current_context().invoked_subcommand is None:
            super()._call(**values)


def _watched(operation: Operation, request: msgspec.Struct, *, as_json: bool) -> Any:
    """Run an operation that may take long with a progress bar, where a person is looking."""
    function = operation.function()
    if operation.name != "report" or as_json or not sys.stderr.isatty():
        return function(request)
    from awr.surfaces.cli.progress import byte_progress

    with byte_progress("Reading transcripts") as progress:
        return function(request, progress=progress)


def _set_project(ctx: click.Context, _: click.Parameter, value: Path | None) -> None:
    settings = ctx.find_object(Settings)
    if value is not None and settings is not None:
        settings.project = value


def _set_json(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    settings = ctx.find_object(Settings)
    if value and settings is not None:
        settings.as_json = True


def _request(operation: Operation, values: dict[str, Any], *, root: Path) -> tuple[msgspec.Struct, Any]:
    """Return the request, and the plain values it was made of."""
    if operation.input_file:
        what = "the input"
        given = parse_json(_input_bytes(values["input"], root=root), what=what)
    else:
        what = "the request"
        # An option that may be repeated and was not given is an empty tuple to click, and no answer to us.
        given = {name: value for name, value in values.items() if value is not None and value != ()}
    return convert_request(given, operation.request_type(), what=what), given


def _input_bytes(name: str, *, root: Path) -> bytes:
    """Read a small request file, or standard input for `-`. Raise InvalidInput or NotFound."""
    if name == "-" and sys.stdin is None:
        raise InvalidInput(
            "standard input is closed",
            expected="a JSON request on standard input",
            next_step="give a file with --input",
        )
    if name == "-":
        data = sys.stdin.buffer.read(MAX_INPUT_BYTES + 1)
    else:
        path = root / name
        try:
            status = path.stat()
        except FileNotFoundError:
            raise NotFound(
                "the input file does not exist",
                expected="a JSON file; its path counts from the project folder",
                next_step="check the path given with --input",
            ) from None
        if not stat.S_ISREG(status.st_mode):
            raise InvalidInput(
                "the input is not a file",
                got="a folder" if stat.S_ISDIR(status.st_mode) else "a device or pipe",
                expected="a JSON file, or - for standard input",
                next_step="give the path of a file with --input",
            )
        with path.open("rb") as file:
            data = file.read(MAX_INPUT_BYTES + 1)
    if len(data) > MAX_INPUT_BYTES:
        raise InvalidInput(
            "the input is too large",
            got=f"more than {MAX_INPUT_BYTES} bytes",
            expected=f"at most {MAX_INPUT_BYTES} bytes",
            next_step="send measurements only, never conversation text",
        )
    return data


def _request_parameters(operation: Operation) -> list[click.Parameter]:
    if operation.input_file:
        text = "A JSON file with the whole request; its path counts from the project folder, - is standard input."
        return [click.Option(["--input"], required=True, metavar="FILE", help=text)]
    return [_parameter(field) for field in msgspec.structs.fields(operation.request_type())]


def _identity(operation: Operation) -> list[click.Parameter]:
    text = "Your own name of this write: the same command under the same name is never carried out twice."
    return [click.Option(["--request-id"], metavar="ID", help=text)] if operation.identified else []


def _parameter(field: msgspec.structs.FieldInfo) -> click.Parameter:
    kind, meta = _without_wrapping(field.type)
    extra = meta.extra or {}
    if extra.get("argument"):
        many = get_origin(kind) is tuple
        return click.Argument(
            [field.name],
            required=field.required,
            nargs=-1 if many else 1,
            metavar=field.name.upper() + ("..." if many else ""),
            type=click.STRING,
        )
    names = [field.name, extra.get("option", "--" + field.name.replace("_", "-"))]
    shared: dict[str, Any] = {"required": field.required, "help": meta.description}
    if kind is bool:
        return click.Option(names, is_flag=True, default=None, **shared)
    if get_origin(kind) is tuple:
        return click.Option(names, multiple=True, default=None, **shared)
    default = field.default
    if default not in {msgspec.NODEFAULT, None, msgspec.UNSET} and isinstance(default, str | int):
        shared["help"] = f"{meta.description} [default: {default}]"
    if kind is int:
        return click.Option(names, type=click.IntRange(_bound(meta.ge), _bound(meta.le)), **shared)
    if get_origin(kind) is Literal:
        return click.Option(names, type=click.Choice(get_args(kind)), **shared)
    if kind is str:
        return click.Option(names, type=click.STRING, **shared)
    return click.Option(names, type=_JsonText(), metavar="JSON", **shared)


def _bound(value: float | None) -> int | None:
    return None if value is None else int(value)


class _JsonText(click.ParamType[object]):
    """JSON typed on the command line."""

    name = "json"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return parse_json(value, what=f"--{param.name}" if param and param.name else "the option")


def _without_wrapping(annotation: Any) -> tuple[Any, msgspec.Meta]:
    """Strip Annotated and `| None` from a field's type and return the plain type with its description."""
    meta = msgspec.Meta()
    while True:
        if get_origin(annotation) is Annotated:
            annotation, *notes = get_args(annotation)
            meta = next((note for note in notes if isinstance(note, msgspec.Meta)), meta)
        elif get_origin(annotation) in {Union, types.UnionType}:
            annotation = next(choice for choice in get_args(annotation) if choice is not type(None))
        else:
            return annotation, meta
