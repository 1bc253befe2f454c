# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse untrusted JSON: check limits on size, depth and numbers, then the types of a record.

::

    class Run(Struct, frozen=True, kw_only=True):
        run: Count

    decode(b'{"run": 3}', Run, "base.tar: boots/0/runs/003/run.json")

Every error is a :class:`~schedperf.model.errors.BundleError` that names the member and, if the JSON
itself is valid, the field. The caller limits the size of the input (``Bundle.read``).
"""

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Annotated, NoReturn, TypeVar

import msgspec
from msgspec import Meta, inspect

from schedperf.model.errors import BundleError
from schedperf.model.text import cut

Value = TypeVar("Value")

# host.json, the deepest file, has five levels.
MAX_JSON_DEPTH = 32
# Largest number of values: objects take 184 bytes each. Only the manifest of a large bundle, with
# eight values per member, has more values than this.
MOST_JSON_VALUES = 1_000_000
# Histograms of 8192 CPUs need this many; only large files contain them.
MOST_HISTOGRAM_VALUES = 4_000_000
# Larger integers lose digits in the float64 columns that every analysis uses.
MAX_JSON_INTEGER = 2**63
# Number of characters of an invalid value that a message shows.
_SHOWN_CHARACTERS = 40

Count = Annotated[int, Meta(ge=0, le=MAX_JSON_INTEGER - 1)]

# Longest sentence that reports print.
MOST_CHARACTERS = 300

_SURROGATES = re.compile("[\ud800-\udfff]")
# msgspec appends the position to messages: "Expected `int` >= 0 - at `$.rows[3].count`". It is
# "`key` in `$.rows`" for keys, and "`$.rows[...]`" for values of keys.
_PROBLEM = re.compile(r"(?s)(?P<what>.*?)(?: - at (?P<field>(?:`key` in )?`\$[^`]*`))?")
_MISSING, _EXPECTED = "Object missing required field ", "Expected "
_STEP = re.compile(r"\.(\w+)|\[(\d+|\.\.\.)\]")

# Largest JSON with characters beyond ASCII: one character beyond U+FFFF makes each character of the
# text take four bytes of memory. The collectors escape characters beyond ASCII.
MOST_WIDE_BYTES = 32 << 20

# Name of the whole document in messages.
ROOT = "$"

# Advice for invalid values.
DAMAGED = "copy the file again"
_OTHER_VERSION = "use the version of schedperf that wrote the file, or record again"
_OTHER_KIND = "pass a file of the expected kind"
# Description of a value that does not match the schema.
_SCHEMA = re.compile(r'\$\.schema is "(schedperf/[a-z-]+)/[0-9]+" \(expected "(schedperf/[a-z-]+)/')


class Sentence(str):
    """Text that reports print, cut to 300 characters when decoded."""

    __slots__ = ()


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"invalid number {name} (expected a JSON number)")


# Types that contain other values.
_PARENTS = frozenset({dict, list})


def count_values(content: bytes) -> int:
    """Return an upper bound of the number of values in JSON, without decoding it."""
    return 1 + sum(map(content.count, (b",", b"[", b"{")))


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return a JSON object; refuse duplicate keys, which parsers resolve differently.

    Lone surrogates in keys become U+FFFD.

    :raises ValueError: a key occurs twice, or is "-0"
    """
    value: dict[str, object] = {}
    for key, child in pairs:
        name = _text(key)
        if name in value:
            raise ValueError(f"duplicate key {show_value(name)}")
        value[name] = child
    # As a number it equals the key "0", so a CPU could have two counts.
    if "-0" in value:
        raise ValueError('invalid key "-0"')
    return value


def _check(value: object, depth: int) -> object:
    """Check depth and numbers of a parsed value, and replace lone surrogates in its strings.

    :param depth: level of the value in the document; 1 for the whole document
    :return: the value; objects and arrays are changed in place
    :raises ValueError: the value is nested too deeply, or a number is too large
    """
    # The values inside a container are one level deeper.
    levels = depth + 1 if type(value) in _PARENTS and value else depth
    if levels > MAX_JSON_DEPTH:
        raise ValueError(f"nested too deeply (expected at most {MAX_JSON_DEPTH} levels)")
    if type(value) is dict:
        for key, child in value.items():
            value[key] = _check(child, depth + 1) if type(child) in _PARENTS else _scalar(child)
        return value
    if type(value) is list:
        for index, child in enumerate(value):
            value[index] = _check(child, depth + 1) if type(child) in _PARENTS else _scalar(child)
        return value
    return _scalar(value)


def _text(value: str) -> str:
    return value if value.isascii() else _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)


def _scalar(value: object) -> object:
    if type(value) is str:
        return _text(value)
    too_large = type(value) is float and not math.isfinite(value)
    if too_large or (type(value) is int and abs(value) >= MAX_JSON_INTEGER):
        raise ValueError("number too large")
    return value


def parse_json(content: bytes, where: str, most_values: int = MOST_JSON_VALUES) -> object:
    """Parse JSON whose number of values, depth and numbers are bounded, and whose keys are unique.

    :param where: bundle and member, for messages
    :param most_values: largest number of values
    :raises BundleError: the JSON is invalid or exceeds a limit
    """
    # Before decoding: "[]," takes three bytes in a file, and 64 in memory.
    if count_values(content) > most_values:
        raise BundleError(
            f"{where}: invalid JSON: too many values (expected at most {most_values})"
        )
    if len(content) > MOST_WIDE_BYTES and not content.isascii():
        raise BundleError(
            f"{where}: invalid JSON: {len(content)} bytes (expected at most {MOST_WIDE_BYTES} with "
            "characters beyond ASCII)"
        )
    try:
        value = json.loads(content, parse_constant=_refuse_constant, object_pairs_hook=_unique)
        return _check(value, 1)
    except RecursionError:
        problem = f"nested too deeply (expected at most {MAX_JSON_DEPTH} levels)"
    except UnicodeDecodeError:
        problem = "invalid UTF-8"
    except ValueError as error:
        problem = str(error)[0].lower() + str(error)[1:]
    raise BundleError(f"{where}: invalid JSON: {problem}") from None


def decode(
    content: bytes, kind: type[Value], where: str, most_values: int = MOST_JSON_VALUES
) -> Value:
    """Parse JSON into a record and check its types, constraints and ``__post_init__``.

    Unknown keys are ignored.

    :param where: bundle and member, for messages
    :param most_values: largest number of values
    :raises BundleError: the JSON is invalid, exceeds a limit, or does not match ``kind``
    """
    return convert(parse_json(content, where, most_values), kind, where)


def convert(value: object, kind: type[Value], where: str, path: str = ROOT) -> Value:
    """Convert the result of :func:`parse_json` to a record, like :func:`decode`.

    :param path: position of the value in the document, for messages
    :raises BundleError: the value does not match ``kind``
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
    """Decode ``object`` and :class:`Sentence`, which msgspec does not support.

    :raises TypeError: the value of a Sentence is not a text, or ``kind`` is another type
    """
    if kind is object:
        return value
    if kind is Sentence and isinstance(value, str):
        return Sentence(cut(value, MOST_CHARACTERS))
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
    """Return the start of the value at a position, for messages.

    Return "invalid" for keys and values of mappings, whose position msgspec does not report.
    """
    if field.startswith("key in") or "..." in steps:
        return "invalid"
    for step in steps:
        if isinstance(value, dict):
            value = value[step]
        elif isinstance(value, list):
            value = value[int(step)]
    return show_value(value)


def show_value(value: object) -> str:
    """Return an invalid value as JSON, cut to 40 characters, for messages."""
    return cut(json.dumps(value), _SHOWN_CHARACTERS)


def _choices(kind: inspect.Type, steps: Sequence[str]) -> list[object]:
    """Return the values that a ``Literal`` at a position allows; [] if there is none."""
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
            yield from (field.type for field in kind.fields if field.encode_name == step)
        case inspect.DictType():
            yield kind.value_type
        case inspect.VarTupleType():
            yield kind.item_type
