# SPDX-License-Identifier: GPL-2.0-or-later
"""Events of a hybrid machine are counted and compared per type of CPU core."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from schedperf.evidence.perf_stat.record import NotCounted
from schedperf.evidence.perf_stat.section import counters
from schedperf.evidence.perf_stat.shares_by_core_type import pmus_of_types, shares_by_type
from schedperf.model.host import CoreType

BOTH = frozenset({"cpu_core", "cpu_atom"})


def run(*counts: tuple[str, float | str]) -> dict[str, object]:
    text = "".join(f"N0,2,{value},,{event},1000,100.00,,\n" for event, value in counts)
    return {"kind": "instrumented", "time_s": 1.99, "files": {"perf_stat/perf_stat.csv": text}}


def cycles(core: Sequence[float], atom: Sequence[float | str]) -> list[dict[str, object]]:
    return [
        run(("cpu_core/cycles/", on_core), ("cpu_atom/cycles/", on_atom))
        for on_core, on_atom in zip(core, atom, strict=True)
    ]


@pytest.fixture
def analyse(analyse_with: Callable[..., Any]) -> Any:
    return analyse_with(counters)


def test_each_type_is_compared_with_itself(analyse: Any) -> None:
    found = analyse(
        cycles((300, 310, 305), (100, 101, 99)), cycles((150, 152, 148), (250, 251, 249))
    )
    by_event = {row.event: row for row in found.rows if row.basis == "time"}
    assert by_event["cpu_core/cycles/"].ratio == pytest.approx(0.492, rel=0.01)
    assert by_event["cpu_atom/cycles/"].ratio == pytest.approx(2.5, rel=0.01)
    assert by_event["cpu_atom/cycles/"].perf_event.pmu == "cpu_atom"


def test_shares_say_on_which_type_the_work_ran(analyse: Any) -> None:
    found = analyse(
        cycles((300, 300, 300), (100, 101, 99)), cycles((100, 102, 98), (300, 301, 299))
    )
    shares = {row.event: row for row in found.rows if row.basis == "share"}
    assert shares["cpu_atom/cycles/"].base == pytest.approx(0.25, rel=0.01)
    assert shares["cpu_atom/cycles/"].new == pytest.approx(0.75, rel=0.01)
    assert shares["cpu_atom/cycles/"].changed
    assert shares["cpu_core/cycles/"].unit == ""


def test_a_type_that_was_not_counted_is_named_and_has_no_share(analyse: Any) -> None:
    found = analyse(
        cycles((300, 310, 305), (100, 101, 99)), cycles((150, 152, 148), ("<not counted>",) * 3)
    )
    assert {row.event for row in found.rows} == {"cpu_core/cycles/"}
    assert "share" not in {row.basis for row in found.rows}
    assert found.not_counted == (
        NotCounted(
            side="new",
            scope="machine",
            event="cpu_atom/cycles/",
            reason="perf reports <not counted> on cpu_atom",
        ),
    )


def test_one_type_is_never_compared_with_another(analyse: Any) -> None:
    base = [run(("cpu_core/cycles/", value)) for value in (300, 310, 305)]
    new = [run(("cpu_atom/cycles/", value)) for value in (300, 310, 305)]
    whole = [run(("cycles", value)) for value in (300, 310, 305)]
    for sides in ((base, new), (base, whole)):
        found = analyse(*sides)
        assert found.rows == ()
        assert {each.reason for each in found.not_counted} == {
            "the event was counted on one side only (base)",
            "the event was counted on one side only (new)",
        }


@pytest.mark.parametrize(
    ("counts", "shares"),
    [
        ({"cpu_core/cycles/": 0.0, "cpu_atom/cycles/": 0.0}, {}),
        ({"cpu_core/cycles/": 5.0, "cpu_atom/cycles/u": 5.0}, {}),
        ({"cpu_core/cycles/": 5.0, "cpu_atom/instructions/": 5.0}, {}),
        ({"cpu_core/cycles/": 5.0, "uncore_imc_0/cycles/": 5.0}, {}),
        ({"cpu_core//": 1.0, "cpu_atom//": 3.0}, {}),
        (
            {"cpu_core/cycles/k": 1.0, "cpu_atom/cycles/k": 3.0},
            {"cpu_core/cycles/k": 0.25, "cpu_atom/cycles/k": 0.75},
        ),
    ],
)
def test_only_the_same_event_has_shares(counts: dict[str, float], shares: dict[str, float]) -> None:
    assert shares_by_type(counts, BOTH) == shares


def test_the_pmus_are_those_of_the_host() -> None:
    types = {name: CoreType(cpus="0", pmu=f"armv8_cortex_{name}") for name in ("a55", "a78")}
    assert pmus_of_types(types, ()) == {"armv8_cortex_a55", "armv8_cortex_a78"}
    # An imported file has no host.json, and uncore PMUs do not count for a type of core.
    events = ("cpu_core/cycles/", "cpu_atom/cycles/", "uncore_imc_0/cas/", "cs")
    assert pmus_of_types({}, events) == BOTH
    assert pmus_of_types({}, events[:1]) == frozenset()
    assert pmus_of_types({}, events[2:]) == frozenset()
