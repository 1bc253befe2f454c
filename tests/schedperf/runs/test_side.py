# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.runs.side: the roles of bundles, and whether two sides ran one kernel."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from schedperf.bundle.open import open_bundle
from schedperf.model.comparison import SideSummary
from schedperf.runs.side import Side, has_other_kernel, name_sides, side_name

KERNEL = {"release": "6.12.0", "build_id": "3f1c5a"}


def side(host: Mapping[str, object]) -> SideSummary:
    return SideSummary(
        name="base",
        label="base",
        path="base.tar",
        digest="b" * 64,
        created=None,
        complete=True,
        boots=1,
        runs_clean=5,
        runs_instrumented=0,
        runs_failed=0,
        host=host,
        recorded_by=None,
    )


def test_the_first_bundle_is_base_and_the_others_are_new() -> None:
    assert [side_name(index) for index in range(4)] == ["base", "new", "new2", "new3"]


@pytest.mark.parametrize(
    ("kernel", "is_other"),
    [
        (KERNEL, False),
        ({**KERNEL, "release": "6.13.0"}, True),
        ({**KERNEL, "build_id": "ffff00"}, True),
        ({"release": "6.13.0", "build_id": None}, True),
        ({"release": "6.12.0", "build_id": None}, False),
        ({}, False),
        (None, False),
        # A bundle is written by strangers: what is not text is unknown.
        ({**KERNEL, "build_id": ["3f1c5a", {}]}, False),
        ("6.13.0", False),
    ],
)
def test_another_kernel_is_another_release_or_another_build(
    kernel: object, *, is_other: bool
) -> None:
    base, new = side({"kernel": KERNEL}), side({"kernel": kernel})
    assert has_other_kernel(base, new) is is_other
    assert has_other_kernel(new, base) is is_other
    assert not has_other_kernel(base, base)


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
