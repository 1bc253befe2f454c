# SPDX-License-Identifier: GPL-2.0-or-later
"""Read hand-written TOML files: refuse unknown keys, and report each error in one line."""

import difflib
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import inspect

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode
from schedperf.model.errors import BundleError, InputError
from schedperf.model.text import clean_line

Record = TypeVar("Record")

_LARGEST_BYTES = 1 << 20
_LONGEST_KEY = 40
_EXPECTED_PATTERN = re.compile(r"(?s)\(expected str matching regex .*\)\Z")


def read_toml(path: Path, expected: str) -> dict[str, Any]:
    """Return the tables of a file.

    :param expected: what the file should be: "a job file"
    :raises InputError: the file cannot be read, is larger than 1 MiB, or is not TOML
    """
    content = read_regular(path, _LARGEST_BYTES, expected, f"pass {expected}")
    try:
        return tomllib.loads(content.decode())
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text (expected {expected} in TOML)") from None
    except (ValueError, RecursionError) as error:
        reason = clean_line(str(error)) or "nested too deeply"
        raise InputError(f"{path}: invalid TOML: {reason}; edit the file") from None


def to_record(
    tree: Mapping[str, object], kind: type[Record], path: Path, examples: Mapping[str, str]
) -> Record:
    """Convert the tables of a file to a record.

    :param examples: valid values by key, for messages about texts
    :raises InputError: a key is unknown or missing, or a value is invalid
    """
    info = inspect.type_info(kind)
    assert isinstance(info, inspect.StructType)
    for problem in _unknown_keys(tree, info, ""):
        raise InputError(f"{path}: {problem}; edit the file")
    try:
        # The conversion to JSON turns dates into text and refuses infinite numbers.
        return decode(json.dumps(tree, default=str).encode(), kind, str(path))
    except BundleError as error:
        raise InputError(f"{path}: {_explain(error, path, examples)}; edit the file") from None


def _explain(error: BundleError, path: Path, examples: Mapping[str, str]) -> str:
    """Return what is wrong with a value, with an example if a pattern describes valid values."""
    problem = error.problem.removeprefix(f"{path}: ").replace("$.", "").replace("[0]", "")
    key = problem.partition(" ")[0].rstrip(":").rpartition(".")[2]
    example = f"(expected e.g. {examples.get(key, 'text on one line')})"
    if "Invalid value" in problem:
        return clean_line(f"{problem} {example}")
    return clean_line(_EXPECTED_PATTERN.sub(lambda _: example, problem))


def _unknown_keys(
    tree: Mapping[str, object], kind: inspect.StructType, where: str
) -> Iterator[str]:
    """Yield an error for each unknown key of a table."""
    fields = {field.encode_name: field.type for field in kind.fields}
    names = [*fields, *([kind.tag_field] if kind.tag_field else [])]
    for key, value in tree.items():
        if key not in names:
            shown = clean_line(key)[:_LONGEST_KEY]
            near = difflib.get_close_matches(key, names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(names)}"
            yield f"{where}{shown}: unknown key ({hint})"
            continue
        for table in value if isinstance(value, list) else [value]:
            inner = _table_type(fields.get(key), table)
            if inner is not None and isinstance(table, dict):
                yield from _unknown_keys(table, inner, f"{where}{key}.")


def _table_type(kind: inspect.Type | None, table: object) -> inspect.StructType | None:
    """Return the record type of a table; for a union, the one that the table's tag selects.

    Return None for a value that is not a record, and for an unknown tag.
    """
    if isinstance(kind, inspect.VarTupleType):
        kind = kind.item_type
    records = [
        each
        for each in (kind.types if isinstance(kind, inspect.UnionType) else (kind,))
        if isinstance(each, inspect.StructType)
    ]
    if len(records) > 1 and isinstance(table, dict):
        records = [each for each in records if each.tag == table.get(each.tag_field)]
    return records[0] if records else None
