# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of lost samples and records of one event."""

from schedperf.inputs.perf_data.losses import EventLosses, loss_caveat


def lost(records: int, samples: int | None, throttled: int = 0) -> EventLosses:
    return EventLosses(records=records, samples=samples, throttled=throttled)


def test_losses_are_said_with_their_share() -> None:
    assert loss_caveat(1000, lost(0, 0)) is None
    assert loss_caveat(1000, lost(0, None)) is None
    assert loss_caveat(900, lost(100, 100)) == "100 samples were lost, 10% of the expected samples"
    both = loss_caveat(0, lost(1, 1, 3))
    assert both is not None
    assert both.startswith("1 sample was lost, 100% of the expected samples; the kernel throttled")


def test_lost_records_of_other_events_are_no_lost_samples() -> None:
    assert loss_caveat(602, lost(30_048, 48)) == (
        "48 samples were lost, 7.4% of the expected samples; "
        "30000 records were lost of other types or events"
    )


def test_lost_context_switches_are_no_part_of_the_expected_samples() -> None:
    mixed = EventLosses(records=10_703, samples=None, throttled=0, mixed=9_666, has_switches=True)
    assert loss_caveat(216, mixed) == (
        "9666 samples or context switches were lost; with perf record --switch-events, the "
        "kernel does not count them separately; 1037 records were lost of other types or events"
    )
    both = mixed + lost(5, 5)
    assert (both.mixed, both.samples, both.has_switches) == (9_666, None, True)
    uncounted = EventLosses(records=30_000, samples=None, throttled=0, has_switches=True)
    assert loss_caveat(602, uncounted) == (
        "30000 records were lost (of unknown types, because the file does not count them by event)"
    )


def test_records_that_are_not_counted_by_event_are_a_bound() -> None:
    said = loss_caveat(900, lost(100, None))
    assert said is not None
    assert said.startswith("100 records were lost (of unknown types")
    assert said.endswith("at most 10% of the expected samples")
