# SPDX-License-Identifier: GPL-2.0-or-later
"""Chain nights: which renewals of the reference they cover, and how exactly."""

import math
from pathlib import Path

import pytest
from msgspec.structs import replace

from schedperf.history.questions.chains import ChainNight, chain_references, read_chains
from schedperf.history.questions.change import compare_times
from schedperf.history.questions.history import open_history
from schedperf.history.questions.levels import Levels
from schedperf.history.store.add import Options
from schedperf.history.store.directory import Directory
from schedperf.history.store.writer import rebuild
from tests.histories import add_said, add_to, dump, make_night, make_recording, night_name

NIGHTS, RENEWED = 12, 6
NEXT_S = 0.9
RELEASES = ("6.18.0", "6.19.0")
CHAIN = ChainNight(
    position=5,
    scale="log",
    previous_revision="6.18.0",
    previous=1.0,
    previous_sd=0.02,
    previous_boots=4,
    next_revision="6.19.0",
    next=0.9,
    next_sd=0.04,
    next_boots=16,
)


def test_the_error_of_a_chain_is_that_of_both_kernels() -> None:
    chain = CHAIN.chain(is_log=True)
    assert chain is not None
    assert chain.shift == pytest.approx(math.log(0.9))
    assert chain.sd == pytest.approx(math.hypot(0.01, 0.01))
    chain = CHAIN.chain(is_log=False)
    assert chain is not None
    assert chain.shift == pytest.approx(-0.1)
    assert chain.sd == pytest.approx(math.hypot(0.01, 0.009))


def test_without_its_error_or_logarithm_there_is_no_chain() -> None:
    assert replace(CHAIN, next_sd=None).chain(is_log=True) is None
    assert replace(CHAIN, scale="linear").chain(is_log=True) is None


def write_renewal(folder: Path, *, boots: int = 8) -> Path:
    """Write nights in which the reference kernel is renewed, and the chain night before."""
    for number in range(NIGHTS):
        is_renewed = number >= RENEWED
        releases = {"base": RELEASES[is_renewed], "new": "6.20.0"}
        base = 0.6 * (NEXT_S if is_renewed else 1.0)
        make_night(folder / "nights", number, base=base, releases=releases)
    chain = folder / "chain"
    chain.mkdir()
    for side, release, level in (("base", "6.18.0", 0.6), ("new", "6.19.0", 0.6 * NEXT_S)):
        times = [[level * (1.0 + 0.001 * (boot % 3))] for boot in range(boots)]
        night = night_name(RENEWED - 1)
        make_recording(chain / f"{side}.tar", night, side, times, release=release)
    return chain


def add_all(folder: Path, chain: Path) -> Directory:
    add_to(folder / "store", folder / "nights")
    return add_to(folder / "store", chain, options=Options(is_chain=True))[0]


def test_dates_are_compared_over_a_renewal_with_a_chain_night(tmp_path: Path) -> None:
    store = add_all(tmp_path, write_renewal(tmp_path))
    dates = night_name(RENEWED - 1), night_name(NIGHTS - 1)
    with open_history(store.folder) as history:
        # It is no night of a series.
        assert [each.revision for each in history.nights(history.series()[0])] == ["6.20.0"] * 12
        [change] = compare_times(history, *dates, 6).changes
    assert change.why is None
    assert change.change == pytest.approx(0.0, abs=0.003)
    assert change.ci_low is not None
    assert change.ci_low < 0.0
    assert change.differs == ("reference",)
    rows = dump(store)
    rebuild(store, pytest.fail)
    assert dump(store) == rows
    assert len(rows["chain"]) == 1


def test_several_kernels_of_the_first_night_have_the_same_chain(tmp_path: Path) -> None:
    store = add_all(tmp_path, write_renewal(tmp_path))
    night = night_name(RENEWED)
    times = [[0.6 * (1.0 + 0.001 * (boot % 3))] for boot in range(2)]
    make_recording(tmp_path / "second.tar", night, "new", times, release="6.20.1")
    add_to(store.folder, tmp_path / "second.tar")
    with open_history(store.folder) as history:
        [series] = history.series()
        nights = history.nights(series)
        levels = Levels(series, nights, read_chains(history)[series.key])
    assert len(nights) == NIGHTS + 1
    assert levels.values == pytest.approx([0.0] * len(nights), abs=0.003)


def test_a_chain_night_of_one_kernel_is_remarked(tmp_path: Path) -> None:
    [base, new] = sorted(write_renewal(tmp_path).iterdir())
    said: list[str] = []
    for path in (base, new):
        add_said(tmp_path / "store", said.append, path, options=Options(is_chain=True))
    assert [line.partition(" (")[0] for line in said] == [
        f"--chain: all bundles are of the {role} kernel" for role in ("reference", "new")
    ]


def test_a_chain_night_of_one_boot_is_not_enough(tmp_path: Path) -> None:
    store = add_all(tmp_path, write_renewal(tmp_path, boots=1))
    with open_history(store.folder) as history:
        [change] = compare_times(history, night_name(RENEWED - 1), night_name(NIGHTS - 1)).changes
    assert change.why == "the reference kernel was renewed without a chain night"


@pytest.mark.parametrize(
    ("changed", "chains"),
    [
        ({}, 1),
        ({"next_revision": "6.20.0"}, 0),
        # The night after the renewal, and 32 days before.
        ({"position": 1000 * (100 + RENEWED) + 1}, 0),
        ({"position": 1000 * (100 + RENEWED - 32)}, 0),
    ],
)
def test_a_chain_belongs_to_a_renewal(
    changed: dict[str, object],
    chains: int,
    tmp_path: Path,
) -> None:
    for number, release in enumerate(RELEASES):
        make_night(tmp_path / "nights", number, releases={"base": release, "new": "6.20.0"})
    store, _ = add_to(tmp_path / "store", tmp_path / "nights")
    with open_history(store.folder) as history:
        nights = history.nights(history.series()[0])
        assert read_chains(history) == {}
    first, second = (
        replace(night, position=1000 * (100 + number))
        for night, number in zip(nights, (0, RENEWED), strict=True)
    )
    chain = replace(CHAIN, **{"position": 1000 * (100 + RENEWED) - 1, **changed})
    renewed = chain_references([first, second], [chain], is_log=True)
    assert [*renewed] == [second.position]
    assert sum(each is not None for each in renewed.values()) == chains
    # Of later nights alone.
    assert chain_references([second], [chain], is_log=True) == {}
    assert chain_references([second], [chain], is_log=True, before="6.18.0") == renewed
