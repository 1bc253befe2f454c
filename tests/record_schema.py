# SPDX-License-Identifier: GPL-2.0-or-later
"""Check that a section's record, as JSON, follows the schema that its dataclasses make."""

import functools
import json

import jsonschema_rs

from schedperf.model.schema import Schema, describe, to_plain
from schedperf.model.sections import SectionData


def check_schema(record: SectionData) -> None:
    """Fail where a value is not of the type that its field has."""
    document = json.loads(json.dumps(to_plain(record), allow_nan=False))
    _validator(type(record)).validate(document)


@functools.cache
def _validator(kind: type[SectionData]) -> jsonschema_rs.Draft202012Validator:
    definitions: dict[str, Schema] = {}
    schema = {**describe(kind, definitions), "$defs": definitions}
    jsonschema_rs.meta.validate(schema)
    return jsonschema_rs.Draft202012Validator(schema)
