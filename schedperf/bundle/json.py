# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse untrusted JSON: limits on depth and numbers first, then the types of a record.

::

    class Run(Struct, frozen=True, kw_only=True):
        run: Count

    decode(b'{"run": 3}', Run, "base.tar: boots/0/runs/003/run.json")

Every error is a :class:`~schedperf.model.errors.BundleError` that names the member, the field and
the expected value. The caller limits the size of the input (``Bundle.read``).
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, NoReturn, TypeVar

import msgspec
from msgspec import Meta, inspect

from schedperf.model.errors import BundleError

Value = TypeVar("Value")

# host.json, the deepest file, has five levels.
MAX_JSON_DEPTH = 32
# Larger integers lose digits in the float64 columns that every analysis uses.
MAX_JSON_INTEGER = 2**63
# Characters of an invalid value that a message shows.
_SHOWN_CHARACTERS = 40

Count = Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER - 1)]

# A longer sentence would be a paragraph of the report.
MOST_CHARACTERS = 300

_SURROGATES = re.compile("[\ud800-\udfff]")
# msgspec appends the position to messages: "Expected `int` >= 0 - at `$.rows[3].count`". It is
# "`key` in `$.rows`" for keys, and "`$.rows[...]`" for values of keys.
_PROBLEM = re.compile(r"(?s)(?P<what>.*?)(?: - at (?P<field>(?:`key` in )?`\$[^`]*`))?")
_MISSING, _EXPECTED = "Object missing required field ", "Expected "
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")

# How messages call the whole document.
ROOT = "$"

# Advice for invalid values.
DAMAGED = "copy the file again"
_OTHER_VERSION = "use the version of schedperf that wrote the file, or record again"
_OTHER_KIND = "pass a file of the expected kind"
# How a schema that does not match is described.
_SCHEMA = re.compile(r'\$\.schema is "(schedperf/[a-z-]+)/[0-9]+" \(expected "(schedperf/[a-z-]+)/')


class Sentence(str):
    """Text that reports print, cut to 300 characters when decoded."""

    __slots__ = ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid number {name} (expected a JSON number)")


# What holds other values.
_PARENTS = frozenset({dict, list})


def _bounded(value: object, depth: int) -> object:
    """Return a parsed value, rebuilt with all limits checked and lone surrogates replaced."""
    # What a value holds is one level deeper.
    levels = depth + 1 if type(value) in _PARENTS and value else depth
    if levels > MAX_JSON_DEPTH:
        raise ValueError(f"nested too deeply (expected at most {MAX_JSON_DEPTH} levels)")
    if type(value) is dict:
        # As a number it equals key "0", so a CPU would have two counts.
        if "-0" in value:
            raise ValueError('invalid key "-0"')
        return {
            _scalar(key): _bounded(child, depth + 1) if type(child) in _PARENTS else _scalar(child)
            for key, child in value.items()
        }
    if type(value) is list:
        return [
            _bounded(child, depth + 1) if type(child) in _PARENTS else _scalar(child)
            for child in value
        ]
    return _scalar(value)


def _scalar(value: object) -> object:
    if type(value) is str:
        return value if value.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    too_large = type(value) is float and not math.isfinite(value)
    if too_large or (type(value) is int and abs(value) >= MAX_JSON_INTEGER):
        raise ValueError("number too large")
    return value


def parse_json(content: bytes, where: str) -> object:
    """Parse JSON whose depth and numbers are bounded.

    :param where: bundle and member, for messages
    """
    try:
        return _bounded(json.loads(content, parse_constant=_refuse_constant), 1)
    except RecursionError:
        problem = f"nested too deeply (expected at most {MAX_JSON_DEPTH} levels)"
    except UnicodeDecodeError:
        problem = "invalid UTF-8"
    except ValueError as error:
        problem = str(error)[0].lower() + str(error)[1:]
    raise BundleError(f"{where}: invalid JSON: {problem}") from None


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def decode(content: bytes, kind: type[Value], where: str) -> Value:
    """Parse JSON into a record and check its types, constraints and ``__post_init__``.

    Unknown keys are ignored.

    :param where: bundle and member, for messages
    :raises BundleError: it is damaged, or does not match ``kind``
    """
    return convert(parse_json(content, where), kind, where)


def convert(value: object, kind: type[Value], where: str, path: str = ROOT) -> Value:
    """Convert the result of :func:`parse_json` to a record, as :func:`decode` does.

    :param path: position of the value in the document, for messages
    """
    try:
        return msgspec.convert(value, kind, str_keys=True, dec_hook=_decode_other)
    except msgspec.ValidationError as error:
        problem = _describe(str(error), value, kind).replace(ROOT, path, 1)
    raise BundleError(f"{where}: {problem}", _advise(problem))


def _advise(problem: str) -> str:
    kinds = _SCHEMA.match(problem)
    if kinds and kinds[1] != kinds[2]:
        return _OTHER_KIND
    of_another_version = problem.startswith(("$.schema is", "$.format is"))
    return _OTHER_VERSION if of_another_version else DAMAGED


def _decode_other(kind: type, value: object) -> object:
    """Decode types that msgspec does not support."""
    if kind is object:
        return value
    if kind is Sentence and isinstance(value, str):
        return Sentence(value[:MOST_CHARACTERS])
    raise TypeError("Expected `str`")


def _describe(message: str, value: object, kind: type) -> str:
    match = _PROBLEM.fullmatch(message)
    what, field = (match["what"], match["field"] or "$") if match else (message, "$")
    what, field = what.replace("`", ""), field.replace("`", "")
    steps = [name or index for name, index in _STEP.findall(field)]
    if what.startswith("Invalid enum value"):
        what = (
            f"{_EXPECTED}{' or '.join(map(json.dumps, _choices(inspect.type_info(kind), steps)))}"
        )
    if what.startswith(_MISSING):
        return f"{field}.{what.removeprefix(_MISSING)} is missing"
    if what.startswith(_EXPECTED):
        expected = what.removeprefix(_EXPECTED)
        return f"{field} is {_show(value, field, steps)} (expected {expected})"
    return f"{field}: {what}"


def _show(value: object, field: str, steps: Sequence[str]) -> str:
    """Return the start of the value at a position; messages quote no keys of mappings."""
    if field.startswith("key in") or "..." in steps:
        return "invalid"
    for step in steps:
        if isinstance(value, dict):
            value = value[step]
        elif isinstance(value, list):
            value = value[int(step)]
    return show_value(value)


def show_value(value: object) -> str:
    """Return the start of an invalid value, as messages show it."""
    return _shorten(json.dumps(value))


def _choices(kind: inspect.Type, steps: Sequence[str]) -> list[object]:
    """Return the words allowed at a position."""
    kinds = [kind]
    for step in steps:
        kinds = [child for kind in _alternatives(kinds) for child in _children(kind, step)]
    return [
        word
        for alternative in _alternatives(kinds)
        if isinstance(alternative, inspect.LiteralType)
        for word in alternative.values
    ]


def _alternatives(kinds: Sequence[inspect.Type]) -> Iterator[inspect.Type]:
    for kind in kinds:
        yield from kind.types if isinstance(kind, inspect.UnionType) else (kind,)


def _children(kind: inspect.Type, step: str) -> Iterator[inspect.Type]:
    match kind:
        case inspect.StructType():
            yield from (field.type for field in kind.fields if field.name == step)
        case inspect.DictType():
            yield kind.value_type
        case inspect.VarTupleType():
            yield kind.item_type
