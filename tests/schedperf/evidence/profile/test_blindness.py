# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.evidence.profile.blindness: what an event sees is decided from its attributes."""

from typing import Any

import pytest

from schedperf.evidence.profile.blindness import EventSight, Machine, judge_events
from schedperf_collectors.perf_header import Event


def event(name: str = "cycles", kind: int = 0, config: int = 0, **chosen: Any) -> Event:
    common: dict[str, Any] = {
        "rate": 999, "by_frequency": True, "sample_type": 0, "read_format": 0, "precise_ip": 0,
        "clockid": None, "ids": (),
    }  # fmt: skip
    return Event(name=name, type=kind, config=config, **{**common, **chosen})


def judge_event(event: Event, pmus: dict[int, str] | None = None, **machine: Any) -> EventSight:
    known = {"name": machine.pop("machine"), **machine}
    (sight,) = judge_events([event], Machine(**known), pmus)
    return sight


NMI = ("cycles", False, "the kernel log reports: using NMIs")


@pytest.mark.parametrize("config", [0, 1])
def test_a_clock_without_a_pmu_is_blind_whatever_it_was_called(config: int) -> None:
    found = judge_event(event("cycles", 1, config), machine="x86_64", emulated=False, recorded=NMI)
    assert (found.clock, found.unit, found.nmi, found.blind) == ("hrtimer", "ns", False, True)
    assert "hrtimer" in found.reason
    assert found.remedy is not None
    assert "PMU" in found.remedy
    assert found.remedy.endswith(
        "; or count PELT updates without sampling, with schedperf record --with bpf_pelt"
    )


def test_calls_that_were_counted_already_are_where_the_report_shows_them() -> None:
    found = judge_event(
        event("cycles", 1, 0), machine="x86_64", emulated=False, recorded=NMI, has_pelt=True
    )
    assert found.remedy is not None
    assert found.remedy.endswith(
        'the section "PELT updates" lists calls that were counted without sampling'
    )
    assert "--with bpf_pelt" not in found.remedy


def test_the_pmu_of_x86_interrupts_by_nmi_and_needs_no_witness() -> None:
    found = judge_event(event(), machine="x86_64", emulated=False)
    assert (found.clock, found.unit, found.nmi, found.blind) == ("pmu", "cycles", True, False)
    assert found.remedy is None


def test_an_uncore_or_tracing_pmu_of_x86_is_not_known_to_see() -> None:
    found = judge_event(event("intel_pt", 9), machine="x86_64", emulated=False)
    assert (found.nmi, found.blind) == (None, None)
    assert found.remedy is not None


@pytest.mark.parametrize(
    ("pmu", "blind"),
    [("cpu_core", False), ("cpu_atom", False), ("ibs_op", False), ("uncore_imc", None)],
)
def test_a_pmu_by_number_is_known_by_its_name(pmu: str, blind: bool | None) -> None:  # noqa: FBT001 # a parameter of the test
    found = judge_event(event("x", 9), machine="x86_64", emulated=False, pmus={9: pmu, 4: "cpu"})
    assert found.blind is blind
    on_arm = judge_event(event("x", 9), machine="aarch64", emulated=False, pmus={9: "armv8_pmuv3"})
    assert (on_arm.blind, "armv8_pmuv3" in on_arm.reason) == (None, True)
    noted = judge_event(
        event("x", 9), machine="aarch64", emulated=False, recorded=("x", False, "NMI"), pmus={}
    )
    assert noted.blind is False


def test_arm64_sees_if_the_machine_itself_said_so() -> None:
    found = judge_event(event(), machine="aarch64", emulated=False, recorded=NMI)
    assert (found.blind, found.reason) == (False, NMI[2])
    without = judge_event(event(), machine="aarch64", emulated=False)
    assert without.blind is None
    blind = judge_event(
        event(), machine="aarch64", emulated=False, recorded=("cycles", True, "no pseudo-NMI")
    )
    assert blind.blind is True
    assert blind.remedy is not None
    assert blind.remedy.startswith("boot with irqchip.gicv3_pseudo_nmi=1")


def test_what_was_noted_of_one_event_says_nothing_of_another() -> None:
    found = judge_event(
        event("cache-misses", 0, 3), machine="aarch64", emulated=False, recorded=NMI
    )
    assert (found.blind, found.unit) == (None, "cache-misses")


@pytest.mark.parametrize(
    ("name", "kind"), [("sched:sched_switch", 2), ("mem:0x10:x", 5), ("faults", 1)]
)
def test_occurrences_are_no_time(name: str, kind: int) -> None:
    found = judge_event(event(name, kind, 2), machine="x86_64", emulated=False)
    assert (found.clock, found.blind) == (None, None)
    assert "counts events, not CPU time" in found.reason


def test_cycles_of_a_hybrid_pmu_are_cycles() -> None:
    found = judge_event(event("cpu_core/cycles/", 0, 4 << 32), machine="x86_64", emulated=False)
    assert found.unit == "cycles"


def test_an_emulator_s_counter_counts_instructions_and_that_is_said() -> None:
    assert any(
        "emulator" in text
        for text in judge_event(event(), machine="aarch64", emulated=True, recorded=NMI).caveats
    )
    for emulated in (False, None):
        sight = judge_event(event(precise_ip=2), machine="x86_64", emulated=emulated)
        assert sight.caveats == ()


def test_skid_is_said_where_there_is_no_precise_level() -> None:
    (said,) = judge_event(event(), machine="x86_64", emulated=False).caveats
    assert "precise level" in said


@pytest.mark.parametrize(("kind", "config"), [(0, 0), (1, 0), (1, 2)])
def test_an_event_without_the_kernel_is_blind_to_it(kind: int, config: int) -> None:
    # On x86 the PMU interrupt is an NMI, which is of no use for code that is not counted.
    left_out = frozenset({"kernel", "hv"})
    sight = judge_event(
        event("cycles:u", kind, config, excluded=left_out), machine="x86_64", emulated=False
    )
    assert (sight.blind, sight.nmi) == (True, None)
    assert sight.excluded == ("kernel", "hv")
    assert "does not count the kernel" in sight.caveats[0]
    assert sight.remedy is not None
    assert sight.remedy.startswith("record the kernel as well")


def test_an_event_of_the_kernel_alone_says_that_user_space_is_missing() -> None:
    sight = judge_event(
        event("cycles:k", excluded=frozenset({"user", "hv"})), machine="x86_64", emulated=False
    )
    assert sight.blind is False
    assert "does not count user space" in sight.caveats[0]
