# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse untrusted JSON into the record that :func:`~schedperf.model.schema.to_plain` made it from.

:mod:`schedperf.bundle.json` parses flat records. This module also parses generic records, unions of
records, and fields whose key is a word of Python.
"""

import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar

from msgspec import NODEFAULT, Struct
from msgspec.structs import FieldInfo, fields

from schedperf.bundle.json import DAMAGED, ROOT, convert, show_value
from schedperf.model.errors import BundleError
from schedperf.model.schema import Unset, key_of

Record = TypeVar("Record", bound=Struct)

_UNIONS = (types.UnionType, typing.Union)


def from_plain(value: object, record: type[Record], where: str, path: str = ROOT) -> Record:
    """Return the record of which :func:`~schedperf.model.schema.to_plain` returns the value.

    Unknown keys are ignored, and so are those of derived properties.

    :param value: result of :func:`~schedperf.bundle.json.parse_json`
    :param where: file, for messages
    :param path: position of the value in the file, for messages
    :raises BundleError: a field is missing or has another type
    """
    parsed: Record = _parse(value, record, where, path)
    return parsed


def _parse(value: object, annotation: Any, where: str, path: str) -> Any:
    if not _holds_record(annotation):
        return _convert(value, annotation, where, path)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        return _parse(value, arguments[0], where, path)
    if origin in _UNIONS:
        return _parse(value, _choose(value, arguments), where, path)
    if origin in {tuple, list, Sequence}:
        return _parse_array(value, arguments, where, path)
    if origin is Mapping:
        kind = types.GenericAlias(dict, (arguments[0], object))
        return {
            key: _parse(item, arguments[1], where, f"{path}.{key}")
            for key, item in _convert(value, kind, where, path).items()
        }
    return _parse_record(value, annotation, where, path)


def _convert(value: object, annotation: Any, where: str, path: str) -> Any:
    return convert(value, annotation, where, path)


@cache
def _holds_record(annotation: Any) -> bool:
    kind = typing.get_origin(annotation) or annotation
    if isinstance(kind, type) and issubclass(kind, Struct):
        return True
    return annotation is Unset or any(map(_holds_record, typing.get_args(annotation)))


def _choose(value: object, annotations: Sequence[Any]) -> Any:
    """Return the type of a union that a value has: the first record whose keys it has."""
    kinds = [kind for kind in annotations if kind is not Unset]
    records = [kind for kind in kinds if _holds_record(kind)]
    if value is None and types.NoneType in kinds:
        return types.NoneType
    if isinstance(value, dict):
        whole = (kind for kind in records if _required(kind) <= value.keys())
        return next(whole, records[0] if records else kinds[0])
    return kinds[0]


def _required(annotation: Any) -> set[str]:
    record = typing.get_origin(annotation) or annotation
    described = fields(record) if issubclass(record, Struct) else ()
    return {key_of(each.name) for each in described if _is_required(each)}


def _is_required(field: FieldInfo) -> bool:
    return field.default is NODEFAULT and field.default_factory is NODEFAULT


def _parse_array(value: object, arguments: Sequence[Any], where: str, path: str) -> Any:
    items = convert(value, tuple[object, ...], where, path)
    is_open = len(arguments) == 1 or arguments[1] is Ellipsis
    kinds = [arguments[0]] * len(items) if is_open else arguments
    if len(items) != len(kinds):
        raise BundleError(
            f"{where}: {path} has {len(items)} items (expected {len(kinds)})", DAMAGED
        )
    return tuple(
        _parse(item, kind, where, f"{path}[{index}]")
        for index, (item, kind) in enumerate(zip(items, kinds, strict=True))
    )


def _parse_record(value: object, annotation: Any, where: str, path: str) -> Any:
    record = typing.get_origin(annotation) or annotation
    if not isinstance(value, dict):
        raise BundleError(f"{where}: {path} is {show_value(value)} (expected object)", DAMAGED)
    hints, given = _hints(annotation), {}
    for field in fields(record):
        key = key_of(field.name)
        if key in value:
            given[field.name] = _parse(value[key], hints[field.name], where, f"{path}.{key}")
        elif _is_required(field):
            raise BundleError(f"{where}: {path}.{key} is missing", DAMAGED)
    try:
        return record(**given)
    except ValueError as error:
        raise BundleError(f"{where}: {path}: {error}", DAMAGED) from None


@cache
def _hints(annotation: Any) -> Mapping[str, Any]:
    """Return the type of each field of a record, of a generic one with what it is a record of."""
    record, arguments = typing.get_origin(annotation) or annotation, typing.get_args(annotation)
    values = dict(zip(getattr(record, "__parameters__", ()), arguments, strict=False))
    hints = typing.get_type_hints(record, include_extras=True)
    return {name: values.get(hint, hint) for name, hint in hints.items()}
