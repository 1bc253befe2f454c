"""JSON Schema of sections, in the few words that they need."""

from collections.abc import Mapping

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


def array(items: Schema) -> Schema:
    """Describe a list of equal things."""
    return {"type": "array", "items": items}


def or_null(schema: Schema) -> Schema:
    """Describe what may be missing."""
    return {"anyOf": [schema, {"type": "null"}]}


def both(schema: Schema) -> Schema:
    """Describe an object that holds the same of base and of new."""
    return record(base=schema, new=schema)
