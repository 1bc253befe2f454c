# SPDX-License-Identifier: GPL-2.0-or-later
"""Read from the states of nights what mails need: which nights were lost, what they found."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.bundle.files import read_regular
from schedperf.bundle.json import decode

# Of a directory of nights, the newest ones.
MOST_NIGHTS = 1000
_STATE = "state.json"
_LARGEST_STATE = 1 << 20

_Text = Annotated[str, Meta(max_length=4096)]


class NightSummary(Struct, frozen=True, kw_only=True):
    """What mails need of the state of a night, ``schedperf/night/1``.

    :param verdict: of the first comparison, before a retest; None: none, or not compared
    :param retest: verdict of the retest; None as for ``verdict``
    :param outcome: how it ended, one line; None: unfinished
    :param failed: it ended without an answer
    """

    schema: Literal["schedperf/night/1"]
    id: _Text
    machine: _Text
    job: _Text
    verdict: _Text | None = None
    retest: _Text | None = None
    outcome: _Text | None = None
    failed: bool = False

    @property
    def is_lost(self) -> bool:
        """Return whether the night has no result."""
        return self.failed or self.outcome is None


def find_states(path: Path) -> list[Path]:
    """Return the states of a directory of nights, the oldest first; of a file, the file."""
    if not path.is_dir():
        return [path]
    return sorted(path.glob(f"*/{_STATE}"))[-MOST_NIGHTS:]


def read_state(path: Path) -> NightSummary:
    """Read the state of a night.

    :raises InputError: it cannot be read
    :raises BundleError: it is damaged, or of another version
    """
    return read_night(read_regular(path, _LARGEST_STATE, "the state of a night"), str(path))


def read_night(content: bytes, name: str) -> NightSummary:
    """Parse the state of a night.

    :param name: file, for messages
    :raises BundleError: it is damaged, or of another version
    """
    return decode(content, NightSummary, name)


def directions_of(nights: Iterable[NightSummary]) -> list[bool]:
    """Return the directions of the changes that nights found, True for a regression.

    Those of the first comparisons: only regressions are retested, so that no improvement is among
    the retested changes.
    """
    ordered = sorted(nights, key=lambda night: night.id)
    changed = (night.verdict for night in ordered if night.verdict in ("regression", "improvement"))
    return [verdict == "regression" for verdict in changed]
