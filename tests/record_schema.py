# SPDX-License-Identifier: GPL-2.0-or-later
"""Check that a section's record, as JSON, follows the schema that its dataclasses make."""

import json

import jsonschema

from schedperf.model.comparison import SectionData
from schedperf.model.schema import Schema, describe, to_plain


def check_schema(record: SectionData) -> None:
    """Fail where a value is not of the type that its field has."""
    definitions: dict[str, Schema] = {}
    schema = {**describe(type(record), definitions), "$defs": definitions}
    jsonschema.validate(json.loads(json.dumps(to_plain(record), allow_nan=False)), schema)
