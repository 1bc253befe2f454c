# SPDX-License-Identifier: GPL-2.0-or-later
"""Derive the JSON Schema of a comparison from the types of the record.

``python -m schedperf.compare.json`` prints the schema that is published in
``docs/schema/compare-2.schema.json``.
"""

import json
import sys
import typing

from schedperf.evidence import SectionPlugin, all_sections
from schedperf.model.comparison import SCHEMA, Comparison, Section
from schedperf.model.schema import Schema, describe, reference


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of the record, each section's included.

    A reader must accept fields and sections that it does not know: adding one is
    compatible and leaves the number in ``schema`` as it is.
    """
    definitions: dict[str, Schema] = {}
    root = describe(Comparison, definitions)
    sections = {
        name: _describe_section(plugin, definitions) for name, plugin in all_sections().items()
    }
    comparison = typing.cast("dict[str, Schema]", definitions["Comparison"]["properties"])
    comparison["schema"] = {"const": SCHEMA}
    comparison["sections"] = {**comparison["sections"], "properties": sections}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": SCHEMA,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def _describe_section(plugin: SectionPlugin, definitions: dict[str, Schema]) -> Schema:
    return {
        "allOf": [
            reference(Section),
            {
                "if": {"properties": {"status": {"const": "ok"}}},
                "then": {"properties": {"data": describe(plugin.record, definitions)}},
            },
        ]
    }


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=1) + "\n")
