# SPDX-License-Identifier: GPL-2.0-or-later
"""Check that a record, as JSON, follows the schema that is derived from its class."""

import functools
import json
from typing import Any

import jsonschema_rs
from msgspec import Struct

from schedperf.model.schema import schema_of, to_plain


def check_schema(record: Struct) -> None:
    """Fail where a value is not of the type that its field has."""
    document = json.loads(json.dumps(to_plain(record), allow_nan=False))
    validator_of(type(record)).validate(document)


@functools.cache
def validator_of(kind: type[Struct]) -> jsonschema_rs.Draft202012Validator:
    """Return what checks JSON against the schema of a class, which is checked itself."""
    schema: dict[str, Any] = {**schema_of(kind)}
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.Draft202012Validator(schema)
