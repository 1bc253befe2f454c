# SPDX-License-Identifier: GPL-2.0-or-later
"""Records as plain values, and their JSON Schema."""

from typing import Annotated, Any

import jsonschema_rs
import pytest
from msgspec import UNSET, Struct, UnsetType, field

from schedperf.model.base_new import BaseNew
from schedperf.model.schema import Schema, describe, schema_of, to_plain


class Counted(Struct, frozen=True, kw_only=True):
    """How often something was seen."""

    samples: Annotated[BaseNew[int | None], "null: not known"]


def test_the_same_of_base_and_new_is_described_with_what_it_is() -> None:
    schema: Any = schema_of(Counted)
    record = Counted(samples=BaseNew(base=3, new=None))
    assert to_plain(record) == {"samples": {"base": 3, "new": None}}
    jsonschema_rs.validate(schema, to_plain(record))
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"samples": {"base": 3, "new": "4"}})
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"samples": {"base": 3}})


def test_base_comes_before_new() -> None:
    assert list(BaseNew(base=1, new=2)) == [1, 2]


def test_both_sides_have_names_and_are_made_into_others() -> None:
    pair = BaseNew(base=1, new=2)
    assert list(pair.items()) == [("base", 1), ("new", 2)]
    assert pair.map(str) == BaseNew(base="1", new="2")


class Classed(Struct, frozen=True, kw_only=True):
    """A key that is a word of Python."""

    class_: str = field(name="class")


def test_a_field_has_the_key_that_it_declares() -> None:
    schema: Any = schema_of(Classed)
    assert to_plain(Classed(class_="PELT")) == {"class": "PELT"}
    jsonschema_rs.validate(schema, {"class": "PELT"})
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validate(schema, {"class_": "PELT"})


class Keyed(Struct, frozen=True, kw_only=True):
    """A row that may have a key."""

    cpu: int | UnsetType | None = UNSET
    node: int | UnsetType = UNSET


def test_a_field_that_is_unset_is_no_key() -> None:
    definitions: dict[str, Schema] = {}
    schema = {**describe(Keyed, definitions), "$defs": definitions}
    assert to_plain(Keyed(cpu=None)) == {"cpu": None}
    for record in (Keyed(), Keyed(cpu=None, node=1)):
        jsonschema_rs.validate(schema, to_plain(record))
    for wrong in ({"cpu": "0"}, {"node": None}):
        with pytest.raises(jsonschema_rs.ValidationError):
            jsonschema_rs.validate(schema, wrong)
