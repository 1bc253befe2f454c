# SPDX-License-Identifier: GPL-2.0-or-later
"""TOML files of people: each fault is one line with the key that is meant, or an example."""

from pathlib import Path
from typing import Annotated

import pytest
from msgspec import Meta, Struct

from schedperf.inputs.bundle.toml import read_toml, to_record
from schedperf.model.errors import InputError


class Mill(Struct, tag_field="kind", tag="mill", frozen=True, kw_only=True):
    sails: int = 4


class Pump(Struct, tag_field="kind", tag="pump", frozen=True, kw_only=True):
    name: Annotated[str, Meta(pattern=r"\A[a-z]+\Z")]


class File(Struct, frozen=True, kw_only=True):
    machine: Mill | Pump = Mill()
    parts: tuple[Mill, ...] = ()


EXAMPLES = {"name": "main", "kind": "mill or pump"}


def read(folder: Path, text: str) -> File:
    path = folder / "a.toml"
    path.write_text(text)
    return to_record(read_toml(path, "a list"), File, path, EXAMPLES)


def test_records_of_a_tag(tmp_path: Path) -> None:
    assert read(tmp_path, "") == File()
    text = '[machine]\nkind = "pump"\nname = "main"\n[[parts]]\nkind = "mill"\nsails = 5\n'
    assert read(tmp_path, text) == File(machine=Pump(name="main"), parts=(Mill(sails=5),))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("part = 1\n", "part: unknown key (did you mean parts?)"),
        ('[machine]\nkind = "pump"\nsails = 4\n', "machine.sails: unknown key (expected one of"),
        ('[[parts]]\nkind = "mill"\nsail = 4\n', "parts.sail: unknown key (did you mean sails?)"),
        ('[machine]\nkind = "pumps"\n', "machine.kind: Invalid value 'pumps' (expected e.g. mill"),
        ('[machine]\nkind = "pump"\n', "machine.name is missing"),
        ('[machine]\nkind = "pump"\nname = "1"\n', 'machine.name is "1" (expected e.g. main)'),
        ('[machine]\nkind = "mill"\nsails = inf\n', "a.toml"),
        ('[machine]\nkind = "mill"\nsails = 2026-01-01\n', "machine.sails is"),
        ("machine = 3\n", "machine is 3"),
        ("[machine\n", "invalid TOML: "),
        ('"\\u202e\\u001b[31m" = 1\n', "[31m: unknown key"),
    ],
)
def test_faults(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(InputError) as error:
        read(tmp_path, text)
    line = str(error.value)
    assert line.startswith(str(tmp_path / "a.toml"))
    assert problem in line
    assert line.isprintable()
