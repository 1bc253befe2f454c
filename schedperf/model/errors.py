# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the exceptions that callers distinguish.

::

    SchedperfError            one line for the user, exit status 2
    └── InputError            an input cannot be used: a file, a number, a name
        └── BundleError       a bundle that cannot be read

A bad line is not an error but a value, :class:`BadLine`. A message says where, what was
found and what to do: lower case, no full stop.
"""

from typing import NamedTuple


class SchedperfError(Exception):
    """The base of all errors that the user can fix."""

    exit_status = 2


class InputError(SchedperfError):
    """A file, a number or a name that the user gave cannot be used."""


class BundleError(InputError):
    """A bundle cannot be read.

    :param problem: where, what was found
    :param advice: what to do
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__("; ".join(filter(None, (problem, advice))))
        self.problem = problem
        self.advice = advice


class BadLine(NamedTuple):
    """A line of a capture that should contain a number but does not.

    :param problem: where, what was found: "hackbench:3: time: invalid number 'x'"
    """

    problem: str


def describe(error: Exception) -> str:
    """Return type and message of an exception as one line: ``KeyError: 'x'``."""
    return " ".join(f"{type(error).__name__}: {error}".split())
