# SPDX-License-Identifier: GPL-2.0-or-later
"""A text that a page carries as a file to save."""

from collections.abc import Callable

from schedperf_reports.blocks import Graphic


class Download(Graphic, frozen=True, kw_only=True):
    """A text that a reader saves as a file: it is neither shown nor changed.

    :param name: of the file
    :param media: its type: "application/json"
    :param write: returns what is in it; only a page asks, for a record is long to write
    :param otherwise: how somebody gets it who has no scripting
    """

    name: str
    media: str
    write: Callable[[], str]
    otherwise: str
