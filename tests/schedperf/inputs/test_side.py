# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.inputs.side: the roles of bundles."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import Side, name_sides, side_name


def test_the_first_bundle_is_base_and_the_others_are_new() -> None:
    assert [side_name(index) for index in range(4)] == ["base", "new", "new2", "new3"]


def test_what_was_read_of_a_side_is_kept_for_the_next_who_asks(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    bundle = open_bundle(make_bundle(tmp_path / "a.tar"))
    base, new = name_sides([bundle, bundle])
    asked: list[str] = []

    def read(side: Side) -> list[str]:
        asked.append(side.name)
        return [side.name]

    assert base.once(read) is base.once(read)
    assert new.once(read) == ["new"]
    assert asked == ["base", "new"]


def test_what_could_not_be_read_is_tried_again(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    (side,) = name_sides([open_bundle(make_bundle(tmp_path / "a.tar"))])
    tries = iter([ValueError("damaged"), None])

    def read(_: Side) -> str:
        error = next(tries)
        if error is not None:
            raise error
        return "read"

    with pytest.raises(ValueError, match="damaged"):
        side.once(read)
    assert side.once(read) == "read"


def test_equal_members_of_all_sides_are_parsed_once(
    tmp_path: Path, make_bundle: Callable[..., Path]
) -> None:
    bundle = open_bundle(make_bundle(tmp_path / "a.tar"))
    sides = name_sides([bundle, bundle])
    outputs = [name for name in bundle.names() if name.endswith("/stdout")]
    assert len(outputs) > 1
    asked: list[str] = []

    def parse(name: str) -> bytes:
        asked.append(name)
        return bundle.read(name)

    for side in sides:
        for name in outputs:
            parsed = side.shared(name, partial(parse, name), "text")
            assert parsed == bundle.read(name)
            assert side.shared(name, lambda: 0, "length", name) == 0
    assert len(asked) == len({bundle.read(name) for name in outputs})
    assert Side(name="base", bundle=bundle).shared(outputs[0], lambda: b"", "text") == b""
