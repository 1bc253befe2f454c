# SPDX-License-Identifier: GPL-2.0-or-later
"""Write the head and foot of a page, without templates, which load slowly."""

from msgspec import Struct


class PageSource(Struct, frozen=True, kw_only=True):
    """One of what a page compares.

    :param name: "base", "new": its colour and shape are drawn beside its label
    :param digest: of the file, ``created`` when it was recorded; "" where there is none
    :param as_base: the command for a shell that makes this side base; "" where there is none
    """

    name: str
    label: str
    path: str
    digest: str = ""
    created: str = ""
    as_base: str = ""


class Head(Struct, frozen=True, kw_only=True):
    """What stands above and below the sections.

    :param title: of the browser's window
    :param sides: base first
    :param schema: of the data that the page shows
    :param brief: the first screen as Markdown, to be copied; "" where the page has none
    :param lkml: the text for a mailing list, to be copied; "" where the page has none
    """

    title: str
    sides: tuple[PageSource, ...]
    tool_version: str
    schema: str
    brief: str = ""
    lkml: str = ""
