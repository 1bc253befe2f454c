# SPDX-License-Identifier: GPL-2.0-or-later
"""Define the content of the head and the foot of a page.

The module imports no templates, which load slowly.
"""

from msgspec import Struct


class PageSource(Struct, frozen=True, kw_only=True):
    """One input of a page.

    :param name: "base", "new", "new2" …, whose colour and shape are drawn beside the label; "" if
        the input belongs to no side
    :param digest: SHA-256 of the recorded data; "" if unknown
    :param created: time of recording; "" if unknown
    :param as_base: shell command that makes this side base; "" if there is none
    """

    name: str
    label: str
    path: str
    digest: str = ""
    created: str = ""
    as_base: str = ""


class Head(Struct, frozen=True, kw_only=True):
    """The text above and below the sections.

    :param title: title of the browser window
    :param sides: base first
    :param schema: schema of the data on the page
    :param brief: the first screen as Markdown for copying; "" if there is none
    :param lkml: the text for a mailing list, for copying; "" if there is none
    """

    title: str
    sides: tuple[PageSource, ...]
    tool_version: str
    schema: str
    brief: str = ""
    lkml: str = ""
