# SPDX-License-Identifier: GPL-2.0-or-later
"""Define what becomes of an item whose worker is killed."""

from msgspec import Struct


class WorkerLost(Exception):
    """A worker ended before its result: it was killed, or had too little memory."""


class Lost(Struct, frozen=True):
    """The result of an item whose worker was killed.

    :param problem: a clause
    """

    problem: str
