"""The record as JSON, and its JSON Schema, both derived from the record itself.

``python -m schedperf.compare.json`` prints the schema that is published in
``docs/schema/compare-1.schema.json``.
"""

import json
import sys
import types
import typing
from collections.abc import Mapping
from dataclasses import fields, is_dataclass

from schedperf.evidence import all_sections
from schedperf.model.caveats import Caveat
from schedperf.model.comparison import SCHEMA, Comparison, Section
from schedperf.model.json_text import write_json

Schema = dict[str, object]

PLAIN_TYPES: Mapping[object, Schema] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    object: {},
}


def to_plain(value: object) -> object:
    """Return a record, or a part of one, as dicts, lists and JSON's plain values."""
    if isinstance(value, Caveat):
        return {"code": value.code, "numbers": to_plain(value.numbers), "text": value.text}
    if is_dataclass(value):
        return {field.name: to_plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item) for item in value]
    return value


def to_json(comparison: Comparison) -> str:
    """Return the record as JSON text.

    It is ASCII: what a bundle smuggled into a name cannot act on a terminal.
    """
    return write_json(to_plain(comparison))


def json_schema() -> Schema:
    """Return the JSON Schema of the record, each section's sub-schema included.

    A reader must accept fields and sections that it does not know: adding one is
    compatible and leaves the number in ``schema`` as it is.
    """
    definitions: dict[str, Schema] = {}
    root = _describe(Comparison, definitions)
    known = {
        name: {
            "allOf": [
                _reference(Section),
                {
                    "if": {"properties": {"status": {"const": "ok"}}},
                    "then": {"properties": {"data": plugin.schema}},
                },
            ]
        }
        for name, plugin in all_sections().items()
    }
    comparison = typing.cast("dict[str, Schema]", definitions["Comparison"]["properties"])
    comparison["schema"] = {"const": SCHEMA}
    comparison["sections"] |= {"properties": known}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _reference(record: type) -> Schema:
    return {"$ref": f"#/$defs/{record.__name__}"}


def _describe(annotation: object, definitions: dict[str, Schema]) -> Schema:
    if isinstance(annotation, type) and is_dataclass(annotation):
        if annotation.__name__ not in definitions:
            definitions[annotation.__name__] = {}  # Stops a record that holds itself.
            definitions[annotation.__name__] = _describe_record(annotation, definitions)
        return _reference(annotation)
    if annotation in PLAIN_TYPES:
        return dict(PLAIN_TYPES[annotation])
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return {"enum": list(arguments)}
    if origin in {types.UnionType, typing.Union}:
        return {"anyOf": [_describe(argument, definitions) for argument in arguments]}
    if origin is tuple:
        return _describe_tuple(arguments, definitions)
    if origin is Mapping:
        schema: Schema = {"type": "object"}
        if typing.get_origin(arguments[0]) is typing.Literal:
            schema["propertyNames"] = _describe(arguments[0], definitions)
        return schema | {"additionalProperties": _describe(arguments[1], definitions)}
    raise TypeError(f"{annotation} has no JSON form")


def _describe_record(record: type, definitions: dict[str, Schema]) -> Schema:
    hints = typing.get_type_hints(record)
    properties = {name: _describe(hint, definitions) for name, hint in hints.items()}
    if record is Caveat:
        properties["text"] = {"type": "string"}
    summary = (record.__doc__ or "").strip().partition("\n")[0]
    return {
        "description": summary,
        "type": "object",
        "properties": properties,
        "required": list(properties),
    }


def _describe_tuple(arguments: tuple[object, ...], definitions: dict[str, Schema]) -> Schema:
    if len(arguments) > 1 and arguments[1] is Ellipsis:
        return {"type": "array", "items": _describe(arguments[0], definitions)}
    items = [_describe(argument, definitions) for argument in arguments]
    return {"type": "array", "prefixItems": items, "minItems": len(items), "maxItems": len(items)}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=1) + "\n")
