# SPDX-License-Identifier: GPL-2.0-or-later
"""Read the states of nights for mails: which nights were lost, and which changes they found."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from msgspec import Meta, Struct

from schedperf.inputs.bundle.files import read_regular
from schedperf.inputs.bundle.json import decode

# Limits for a directory of nights; the newest ones are read.
MOST_NIGHTS = 1000
_STATE = "state.json"
_LARGEST_STATE = 1 << 20

_Text = Annotated[str, Meta(max_length=4096)]


class NightSummary(Struct, frozen=True, kw_only=True):
    """The part of a night's state ``schedperf/night/1`` that mails use.

    :param verdict: verdict of the first comparison, before a retest; None if not compared, or
        without a verdict
    :param retest: verdict of the retest; None if not retested, or without a verdict
    :param outcome: how it ended, one line; None if unfinished
    :param failed: whether it ended without a result
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
        """Return whether the night failed or is unfinished."""
        return self.failed or self.outcome is None


def find_states(path: Path) -> list[Path]:
    """Return the paths of the newest 1000 states of a directory of nights, oldest first.

    Any other path is returned as it is, even if there is no such file.
    """
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
    """Return the directions of the changes that nights found, oldest first; True for a regression.

    Only first comparisons are used: improvements are not retested, so retests would be biased.
    """
    ordered = sorted(nights, key=lambda night: night.id)
    changed = (night.verdict for night in ordered if night.verdict in ("regression", "improvement"))
    return [verdict == "regression" for verdict in changed]
