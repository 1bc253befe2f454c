# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse a comparison from JSON, and derive its JSON Schema from the types of the record.

``python -m schedperf.compare.json`` prints the schema that is published in
``docs/schema/compare-2.schema.json``.
"""

import json
import sys
import typing
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from schedperf.evidence import SectionPlugin, all_sections
from schedperf.inputs.bundle.json import DAMAGED, convert, parse_json, show_value
from schedperf.model.base_new import BASE
from schedperf.model.comparison import SCHEMA, Comparison
from schedperf.model.errors import BundleError
from schedperf.model.schema import Schema, describe, reference
from schedperf.model.sections import Section

# The largest comparison of the examples is 3 MB with 160,000 values.
MOST_BYTES = 32 << 20
# Each value takes about 100 bytes of memory, even if it has few bytes in the file.
MOST_VALUES = 2_500_000

Id = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]


class _Header(Struct, frozen=True, kw_only=True):
    """The fields that are checked before the rest is parsed."""

    schema: Literal["schedperf/compare/2"]
    id: Id
    sections: Mapping[str, object]


def read_comparison(content: bytes, name: str) -> Comparison:
    """Parse what ``schedperf compare --json`` printed, each section included.

    Unknown fields and sections are ignored; a section of another version becomes absent. The ``id``
    is not verified: it covers the digests of earlier recordings, which the record does not hold.

    :param name: file, for messages
    :raises BundleError: the text is too large, damaged, or of another version; or its sides are
        invalid
    :raises PluginError: a plugin of another package cannot be used
    """
    if len(content) > MOST_BYTES:
        raise BundleError(
            f"{name}: too large (expected a comparison of at most {MOST_BYTES} bytes)"
        )
    value = parse_json(content, name, MOST_VALUES)
    header = convert(value, _Header, name)
    rest = {**convert(value, dict[str, object], name), "sections": {}}
    sections = dict(_parse_sections(header.sections, name))
    comparison = replace(convert(rest, Comparison, name), sections=sections)
    _check_sides(comparison, name)
    return comparison


def _parse_sections(values: Mapping[str, object], name: str) -> Iterator[tuple[str, Section]]:
    plugins = all_sections()
    for key, value in values.items():
        if key not in plugins:
            continue
        path, record = f"$.sections.{key}", plugins[key].record
        fields = convert(value, dict[str, object], name, path)
        section = convert({**fields, "data": None}, Section, name, path)
        if section.schema != record.schema_id():
            # Results of another version must not be shown as results of this one.
            yield key, Section.without(record, "absent", f"recorded as {section.schema}")
        elif section.status == "ok":
            data = convert(fields.get("data"), record, name, f"{path}.data")
            yield key, replace(section, data=data)
        else:
            yield key, section


def _check_sides(comparison: Comparison, name: str) -> None:
    sides = [side.name for side in comparison.sides]
    if len(sides) < 2 or sides[0] != BASE or len({*sides}) < len(sides):  # noqa: PLR2004 # a pair
        raise BundleError(
            f"{name}: $.sides has the names {show_value(sides)} (expected base, new, new2 ...)",
            DAMAGED,
        )
    for part in ("rows", "sweeps", "families", "movers"):
        for index, item in enumerate(getattr(comparison, part)):
            if item.side not in sides:
                side = show_value(item.side)
                raise BundleError(
                    f"{name}: $.{part}[{index}].side is {side} (expected {' or '.join(sides)})",
                    DAMAGED,
                )


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of the record, each section's included.

    A reader must ignore unknown fields and sections: adding one is a compatible change and does not
    increase the number in ``schema``.
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
