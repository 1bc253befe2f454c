"""JSON Schema of sections, in the few words that they need."""

from collections.abc import Mapping
from typing import cast

Schema = Mapping[str, object]

TEXT: Schema = {"type": "string"}
TEXTS: Schema = {"type": "array", "items": TEXT}
FLAG: Schema = {"type": "boolean"}
COUNT: Schema = {"type": "integer", "minimum": 0}
NUMBER_OR_NULL: Schema = {"type": ["number", "null"]}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
FLAG_OR_NULL: Schema = {"type": ["boolean", "null"]}
NUMBERS: Schema = {"type": "array", "items": {"type": "number"}}


def record(**properties: Schema) -> Schema:
    """Describe an object that has all of these keys; a later version may add others."""
    return {"type": "object", "required": list(properties), "properties": properties}


def fields_of(described: Schema) -> dict[str, Schema]:
    """Return the keys of what :func:`record` described, for one that has others besides."""
    return cast("dict[str, Schema]", described["properties"])


def document(name: str, **properties: Schema) -> Schema:
    """Describe a whole JSON document that is published under this name: ``schedperf/profile/1``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": name,
        **record(schema={"const": name}, **properties),
    }


def array(items: Schema) -> Schema:
    """Describe a list of equal things."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """Describe what may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def both(schema: Schema) -> Schema:
    """Describe an object that holds the same of base and of new."""
    return record(base=schema, new=schema)
