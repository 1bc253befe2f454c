# SPDX-License-Identifier: GPL-2.0-or-later
"""Define a file that a page contains for downloading."""

from collections.abc import Callable

from schedperf_reports.blocks import Graphic


class Download(Graphic, frozen=True, kw_only=True):
    """A text that a reader can save as a file; it is not shown on the page.

    :param name: name of the file
    :param media: media type: "application/json"
    :param write: function that returns its content, called only for a page because writing a record
        takes long
    :param otherwise: how to get the file without scripting
    """

    name: str
    media: str
    write: Callable[[], str]
    otherwise: str
