# SPDX-License-Identifier: GPL-2.0-or-later
"""Limit how much output of a bundle is parsed, and report output without numbers."""

from schedperf.inputs.bundle.open import Bundle, Run
from schedperf.model.errors import BundleError

STREAMS = ("stdout", "stderr")
# A benchmark prints kilobytes, which are parsed in memory. Recorders keep at most 12 MiB.
LARGEST_TEXT_BYTES = 16 << 20
# In us: the time of all parsers to search a character and a line, and of one parser to parse a
# line. To be parsed within seconds, a bundle below 1 MB may have 16 MB of long lines, or a few MB
# of short ones.
COST_PER_CHARACTER, COST_PER_LINE = 0.25, 1.0
SMALL_COST, MOST_COST_PER_BYTE = 4_000_000, 4
# The part of a long output that is always recorded.
_KEPT_PART = "the first 4 MiB or the last 8 MiB of the output"


class Allowance:
    """Remaining time, as estimated from text lengths, to search and parse output of one bundle.

    The limit grows with the compressed size of the bundle; only highly repetitive text exceeds it.
    """

    def __init__(self, bundle: Bundle) -> None:
        self._path = bundle.path
        self._left = float(max(SMALL_COST, MOST_COST_PER_BYTE * bundle.packed_bytes))

    def search(self, name: str, text: str) -> None:
        """Subtract the time that it takes to search a text for benchmark output.

        :param name: member of the bundle
        :raises BundleError: the texts so far take too long
        """
        self._use(name, COST_PER_CHARACTER * len(text) + COST_PER_LINE * text.count("\n"))

    def read(self, name: str, lines: int, readers: int) -> None:
        """Subtract the time that it takes to parse a text.

        :param name: member of the bundle
        :param lines: number of its lines
        :param readers: number of parsers that read each line
        :raises BundleError: the texts so far take too long
        """
        self._use(name, COST_PER_LINE * readers * lines)

    def _use(self, name: str, cost: float) -> None:
        self._left -= cost
        if self._left < 0.0:
            raise BundleError(
                f"{self._path}: {name}: too much printed text for a bundle of this size; record "
                "again and print less, or unpack the bundle to its plain tar"
            )


def prints_nothing(bundle: Bundle) -> bool:
    """Return whether there are successful runs and all of them printed nothing."""
    runs = [run for run in bundle.runs if run.succeeded]
    return bool(runs) and all(is_silent(bundle, run) for run in runs)


def is_silent(bundle: Bundle, run: Run) -> bool:
    """Return whether a run printed nothing."""
    return not any(bundle.size(f"{run.folder}/{stream}") for stream in STREAMS)


def why_unread(*, has_rules: bool) -> str:
    """Return the message that no number was read from the output of a workload.

    :param has_rules: True if the user gave --metric rules
    """
    readers = "no --metric rule and no parser reads" if has_rules else "no parser reads"
    return f"{readers} the output of this workload"


def correct_rule(*, is_whole: bool) -> str:
    """Return advice about a rule that matches nothing.

    :param is_whole: True if all output was kept and read
    """
    place = "" if is_whole else f", or print the result within {_KEPT_PART}"
    return f"correct the --metric rule{place}"
