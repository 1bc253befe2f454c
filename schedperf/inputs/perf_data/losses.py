# SPDX-License-Identifier: GPL-2.0-or-later
"""Losses of one event in a recording: lost samples, lost records, throttling."""

from msgspec import Struct

from schedperf.inputs.perf_data.recording import Losses
from schedperf.model.units import format_number


class EventLosses(Struct, frozen=True, kw_only=True):
    """Losses of one event, in one or several runs.

    :param records: lost records of any type and event
    :param samples: lost samples of the event; None if the file does not count them by event, or
        counts them in ``mixed``
    :param throttled: number of times that the kernel throttled the event
    :param mixed: lost samples and lost context-switch records of the event, which the kernel counts
        together
    :param has_switches: whether lost records may be context-switch records
    """

    records: int
    samples: int | None
    throttled: int
    mixed: int = 0
    has_switches: bool = False

    @classmethod
    def of(cls, losses: Losses, event: int) -> "EventLosses":
        """Return the losses of one event.

        :param event: index into the recording's events
        """
        return cls(
            records=losses.records,
            samples=losses.samples_of_event[event],
            throttled=losses.throttled_of_event[event],
            mixed=losses.mixed_of_event[event],
            has_switches=losses.has_switches,
        )

    def __add__(self, more: "EventLosses") -> "EventLosses":
        is_counted = self.samples is not None and more.samples is not None
        return EventLosses(
            records=self.records + more.records,
            samples=(self.samples or 0) + (more.samples or 0) if is_counted else None,
            throttled=self.throttled + more.throttled,
            mixed=self.mixed + more.mixed,
            has_switches=self.has_switches or more.has_switches,
        )


NO_LOSSES = EventLosses(records=0, samples=0, throttled=0)


def loss_caveat(samples: int, lost: EventLosses) -> str | None:
    """Describe lost samples, lost records and throttling of an event; None if there are none.

    :param samples: number of samples of the event that were recorded
    """
    parts = []
    if lost.mixed:
        parts.append(
            f"{lost.mixed} samples or context switches were lost; with perf record "
            "--switch-events, the kernel does not count them separately"
        )
    elif lost.samples is None and lost.records:
        # Context-switch records are frequent, so they make the bound useless.
        bound = f", at most {_percent(samples, lost.records)} of the expected samples"
        parts.append(
            f"{_were_lost(lost.records, 'record')} (of unknown types, because the file does not "
            f"count them by event){'' if lost.has_switches else bound}"
        )
    if lost.samples:
        parts.append(
            f"{_were_lost(lost.samples, 'sample')}, {_percent(samples, lost.samples)} of the "
            "expected samples"
        )
    of_event = lost.mixed or lost.samples
    if of_event is not None and (others := lost.records - of_event) > 0:
        parts.append(f"{_were_lost(others, 'record')} of other types or events")
    if lost.throttled:
        times = "time" if lost.throttled == 1 else "times"
        parts.append(
            f"the kernel throttled the event {lost.throttled} {times}, because the "
            "sampling rate was too high"
        )
    return "; ".join(parts) or None


def _were_lost(count: int, what: str) -> str:
    return f"{count} {what} was lost" if count == 1 else f"{count} {what}s were lost"


def _percent(samples: int, lost: int) -> str:
    share = 100.0 * lost / (samples + lost)
    return f"{format_number(float(f'{share:.2g}'))}%"
