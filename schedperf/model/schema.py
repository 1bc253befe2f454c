# SPDX-License-Identifier: GPL-2.0-or-later
"""Convert records to JSON values, and derive their JSON Schema from their types.

What a command prints with ``--json`` is described by::

    python -m schedperf.model.schema schedperf.evidence.c2c.record:C2cDocument
"""

import importlib
import json
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from functools import cache

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import fields

Schema = Mapping[str, object]


_PLAIN_TYPES: Mapping[object, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    object: {},
}


def to_plain(value: object) -> object:
    """Convert a record, or a part of one, to dicts, lists and plain JSON values.

    Properties listed in a record's class variable ``derived`` are written like fields. A field that
    is ``msgspec.UNSET`` is not written.
    """
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, Struct):
        values = {key: getattr(value, name) for name, key in _keys(type(value)).items()}
        return {key: to_plain(part) for key, part in values.items() if part is not UNSET}
    return value


@cache
def _keys(record: type[Struct]) -> Mapping[str, str]:
    """Return the JSON key of each field and derived property: ``class`` for ``class_``."""
    keys = zip(record.__struct_fields__, record.__struct_encode_fields__, strict=True)
    return {**dict(keys), **{name: name for name in _derived(record)}}


def _derived(record: type) -> tuple[str, ...]:
    return getattr(record, "derived", ())


def describe(annotation: object, definitions: dict[str, Schema]) -> Schema:  # noqa: PLR0911 # kinds
    """Return the JSON Schema of a type that occurs in records; for a record, a reference to it.

    :param annotation: a record, a plain type, or a tuple, list, sequence, mapping, union, literal
        or ``Annotated`` of them; the last text of an ``Annotated`` is the description
    :param definitions: receives the schema of each record by its name
    :raises TypeError: the type has no JSON form
    """
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        if annotation.__name__ not in definitions:
            definitions[
                annotation.__name__
            ] = {}  # Stops the recursion for a record that contains itself.
            definitions[annotation.__name__] = _describe_record(annotation, definitions)
        return reference(annotation)
    if annotation in _PLAIN_TYPES:
        return _PLAIN_TYPES[annotation]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(origin, type) and issubclass(origin, Struct):
        # A generic record is described in place, with its type arguments.
        values = dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=True))
        return _describe_record(origin, definitions, values)
    if origin is typing.Annotated:
        texts = [each for each in arguments[1:] if isinstance(each, str)]
        about = {"description": texts[-1]} if texts else {}
        return {**describe(arguments[0], definitions), **about}
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in {types.UnionType, typing.Union}:
        return _describe_union(arguments, definitions)
    if origin in {tuple, list, Sequence}:
        return _describe_array(arguments, definitions)
    if origin is Mapping:
        return _describe_mapping(arguments, definitions)
    raise TypeError(f"{annotation}: type not supported in JSON")


def schema_of(record: type[Struct]) -> Schema:
    """Return the JSON Schema of a record together with the definitions that it refers to.

    :raises TypeError: the type of a field has no JSON form
    """
    definitions: dict[str, Schema] = {}
    return {**describe(record, definitions), "$defs": definitions}


def schema_name(document: type[Struct]) -> str:
    """Return the name of a document's schema, which is the default of its field ``schema``."""
    return next(str(field.default) for field in fields(document) if field.name == "schema")


def document_schema(record: type[Struct]) -> Schema:
    """Return the JSON Schema of a whole document: a record whose field ``schema`` names it.

    :raises TypeError: the type of a field has no JSON form
    """
    title = schema_name(record)
    dialect = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return {**dialect, **schema_of(record)}


def reference(record: type[Struct]) -> Schema:
    """Return a reference to the schema of a record among the definitions."""
    return {"$ref": f"#/$defs/{record.__name__}"}


def _describe_record(
    record: type[Struct],
    definitions: dict[str, Schema],
    values: Mapping[object, object] | None = None,
) -> Schema:
    hints = typing.get_type_hints(record, include_extras=True)
    types_of = {
        name: (values or {}).get(hints[name], hints[name]) for name in record.__struct_fields__
    }
    for name in _derived(record):
        types_of[name] = typing.get_type_hints(getattr(record, name).fget)["return"]
    keys = _keys(record)
    properties = {keys[name]: describe(hint, definitions) for name, hint in types_of.items()}
    summary = (record.__doc__ or "").strip().partition("\n")[0]
    return {
        "description": summary,
        "type": "object",
        "properties": properties,
        "required": [keys[name] for name, hint in types_of.items() if not _may_be_unset(hint)],
    }


def _may_be_unset(annotation: object) -> bool:
    if typing.get_origin(annotation) is typing.Annotated:
        annotation = typing.get_args(annotation)[0]
    return UnsetType in typing.get_args(annotation)


def _describe_union(arguments: tuple[object, ...], definitions: dict[str, Schema]) -> Schema:
    kinds = (argument for argument in arguments if argument is not UnsetType)
    schemas = [describe(kind, definitions) for kind in kinds]
    return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}


def _describe_mapping(arguments: tuple[object, ...], definitions: dict[str, Schema]) -> Schema:
    keys, values = arguments
    schema: dict[str, object] = {"type": "object"}
    if typing.get_origin(keys) is typing.Literal:
        schema["propertyNames"] = describe(keys, definitions)
    return schema | {"additionalProperties": describe(values, definitions)}


def _describe_array(arguments: tuple[object, ...], definitions: dict[str, Schema]) -> Schema:
    if len(arguments) == 1 or arguments[1] is Ellipsis:
        return {"type": "array", "items": describe(arguments[0], definitions)}
    items = [describe(argument, definitions) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


def main() -> None:
    """Print the schema of the record that the command line names."""
    module, _, name = sys.argv[1].partition(":")
    asked = getattr(importlib.import_module(module), name)
    sys.stdout.write(json.dumps(document_schema(asked), indent=1) + "\n")


if __name__ == "__main__":
    main()
