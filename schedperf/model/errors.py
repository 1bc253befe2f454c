# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the exceptions that callers distinguish.

::

    SchedperfError            one line for the user, exit status 2
    ├── InputError            something the user gave us cannot be used: a file, a number, a name
    │   └── BundleError       a bundle that cannot be read
    └── NotComparable         the bundles are fine, but comparing them means nothing; exit status 4

A bad line is not an error but a value, :class:`BadLine`. A message says where, what was
found and what to do: lower case, no full stop.
"""

from typing import NamedTuple


class SchedperfError(Exception):
    """Base of all errors that are the user's to mend."""

    exit_status = 2


class InputError(SchedperfError):
    """Something that the user gave cannot be used."""


class BundleError(InputError):
    """A bundle cannot be read.

    :param problem: where, what was found
    :param advice: what to do
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__("; ".join(filter(None, (problem, advice))))
        self.problem = problem
        self.advice = advice


class NotComparable(SchedperfError):
    """Two bundles cannot be compared at all."""

    exit_status = 4


class BadLine(NamedTuple):
    """A line of a capture that should have held a number and did not.

    :param problem: where, what was found: "hackbench:3: time: invalid number 'x'"
    """

    problem: str


def describe(error: Exception) -> str:
    """Say on one line what a plugin that is isolated died of."""
    return " ".join(f"{type(error).__name__}: {error}".split())
