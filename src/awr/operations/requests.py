"""From untrusted JSON to a typed request, with errors that say where and never what."""

from __future__ import annotations

import math
import re
from typing import Any, NoReturn, TypeVar, get_args

import msgspec

from awr.errors import InvalidInput, not_unicode

__all__ = ["convert_request", "decode_request", "parse_json"]

Request = TypeVar("Request", bound=msgspec.Struct)

# Messages of msgspec. Each is matched from its beginning: what stands inside one may be a caller's own text.
_PLACE = re.compile(r" - at `(?:key in )?(\$(?:\.\w+|\[\d+\]|\[\.\.\.\])*)`\Z", re.ASCII)
_NAMED_FIELD = re.compile(r"Object missing required field `(\w+)`", re.ASCII)
_EXPECTED = re.compile(r"Expected `([\w| ]+)`(?: (of length )?([<>=]+ -?[\d.]+))?(?:, got `(\w+)`)?", re.ASCII)


def decode_request(data: bytes, wanted: type[Request], *, what: str) -> Request:
    """Parse JSON bytes into a request. `what` names the input in errors. Raise InvalidInput."""
    return convert_request(parse_json(data, what=what), wanted, what=what)


def parse_json(data: bytes | str, *, what: str) -> object:
    """Parse strict JSON: UTF-8, each key once, no NaN or infinity. Raise InvalidInput."""
    import json  # commands that are given no JSON need not pay for it

    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value: object = json.loads(
            text, object_pairs_hook=_unique_keys, parse_constant=_no_constant, parse_float=_finite
        )
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{what} is not UTF-8 text",
            got=f"a bad byte at offset {error.start}",
            expected="a JSON object in UTF-8",
            next_step="write the file as UTF-8 without a byte order mark",
        ) from None
    except json.JSONDecodeError as error:
        raise InvalidInput(
            f"{what} is not valid JSON",
            got=f"a syntax error at line {error.lineno}, column {error.colno}",
            expected="one JSON object",
            next_step="correct the JSON there",
        ) from None
    except (ValueError, RecursionError) as error:
        reason = error.args[0] if type(error) is _RefusedError else "values nested or sized beyond reason"
        raise InvalidInput(
            f"{what} is not strict JSON",
            got=reason,
            expected="one JSON object in which each key stands once and each number is finite",
            next_step="correct the JSON",
        ) from None
    return value


def convert_request(value: object, wanted: type[Request], *, what: str) -> Request:
    """Check plain values against a request type. Raise InvalidInput, naming the place and the rule only."""
    try:
        return msgspec.convert(value, wanted)
    except UnicodeEncodeError:
        raise not_unicode() from None
    except msgspec.ValidationError as error:
        _refuse(str(error), wanted, what=what)


class _RefusedError(ValueError):
    """Something that JSON readers often accept and this one does not."""


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RefusedError("the same key twice in one object")
    return found


def _no_constant(_: str) -> NoReturn:
    raise _RefusedError("NaN or an infinity")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise _RefusedError("a number beyond every finite one")
    return number


def _place_of(message: str, wanted: type[msgspec.Struct]) -> str:
    """Return where in the request, as far as it is named by fields of the request type itself."""
    found = _PLACE.search(message)
    known = _field_names(wanted)
    named = re.findall(r"\.(\w+)", found.group(1)) if found else []
    return found.group(1) if found and known.issuperset(named) else "$"


def _field_names(annotation: Any) -> set[str]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        fields = msgspec.structs.fields(annotation)
        return {field.name for field in fields}.union(*(_field_names(field.type) for field in fields))
    return set().union(*(_field_names(part) for part in get_args(annotation)))


def _refuse(message: str, wanted: type[msgspec.Struct], *, what: str) -> NoReturn:
    where = _place_of(message, wanted)
    if missing := _NAMED_FIELD.match(message):
        got, expected = "nothing", f"the field {missing.group(1)}"
    elif message.startswith("Object contains unknown field"):
        known = ", ".join(wanted.__struct_encode_fields__)
        got = "a field that does not belong there"
        expected = f"only {known}" if where == "$" else "only the documented fields"
    elif typed := _EXPECTED.match(message):
        kind, length, bound, found = typed.groups()
        expected = f"{kind} {length or ''}{bound}" if bound else kind
        got = found or "a value outside the bound"
    else:
        got, expected = "a value that is not allowed there", "one of the documented values"
    raise InvalidInput(
        f"{what} does not fit at {where}",
        got=got,
        expected=expected,
        next_step="compare it with the example in the documentation",
        location=where,
    )
