# SPDX-License-Identifier: GPL-2.0-or-later
"""Options of the kernel's configuration that differ between two sides."""

from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.compare.kernel_config import option_differences
from schedperf.inputs.bundle.open import open_bundle
from schedperf.inputs.side import name_sides
from schedperf.model.sides import OptionDifference

MakeBundle = Callable[..., Path]

MEMBER = "boots/0/layout/config"
BASE = 'CONFIG_HZ=250\n# CONFIG_DEBUG is not set\nCONFIG_NAME="a=b"\nCONFIG_OLD=y\n'
NEW = 'CONFIG_HZ=1000\nCONFIG_NAME="a=b"\nCONFIG_ADDED=m\n'


@pytest.mark.parametrize("text", [None, BASE])
def test_what_is_not_known_or_equal_differs_in_nothing(
    make_bundle: MakeBundle, tmp_path: Path, text: str | None
) -> None:
    files = [{MEMBER: BASE}, {} if text is None else {MEMBER: text}]
    paths = [make_bundle(tmp_path / f"{n}.tar", files=one) for n, one in enumerate(files)]
    assert option_differences(name_sides([open_bundle(path) for path in paths])) == ()


def test_an_option_that_is_not_set_is_none(make_bundle: MakeBundle, tmp_path: Path) -> None:
    texts = (BASE, NEW)
    paths = [
        make_bundle(tmp_path / f"{number}.tar", files={MEMBER: text})
        for number, text in enumerate(texts)
    ]
    assert option_differences(name_sides([open_bundle(path) for path in paths])) == (
        OptionDifference(side="new", name="CONFIG_ADDED", base=None, new="m"),
        OptionDifference(side="new", name="CONFIG_HZ", base="250", new="1000"),
        OptionDifference(side="new", name="CONFIG_OLD", base="y", new=None),
    )


@pytest.mark.parametrize(
    ("name", "is_tool"),
    [
        ("CC_VERSION_TEXT", True),
        ("GCC_VERSION", True),
        ("PAHOLE_VERSION", True),
        ("AS_VERSION", True),
        ("LD_CAN_USE_KEEP_IN_OVERLAY", True),
        ("CC_HAS_ASM_GOTO_OUTPUT", True),
        ("LOCALVERSION", True),
        ("BUILD_SALT", True),
        ("PREEMPT_LAZY", False),
        ("CC_OPTIMIZE_FOR_SIZE", False),
        ("LD_DEAD_CODE_DATA_ELIMINATION", False),
        ("CC_IS_CLANG", True),
    ],
)
def test_what_describes_the_tools_of_the_build_stands_apart(
    make_bundle: MakeBundle, tmp_path: Path, name: str, *, is_tool: bool
) -> None:
    paths = [
        make_bundle(tmp_path / f"{value}.tar", files={MEMBER: f"CONFIG_{name}={value}\n"})
        for value in "12"
    ]
    [option] = option_differences(name_sides([open_bundle(path) for path in paths]))
    assert option.toolchain == is_tool
