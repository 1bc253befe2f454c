# SPDX-License-Identifier: GPL-2.0-or-later
"""Define :class:`Context`, the input of the checks of a mail."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Literal

from msgspec import Struct

from schedperf.history.questions.balance import Balance
from schedperf.publish.culprit.figures import Evidence
from schedperf.publish.mail.message import Message
from schedperf.publish.mail.outbox import Decision, Mail
from schedperf.publish.mail.site import MailSite

# "unknown" if the archive or the server does not answer.
Answer = Literal["yes", "no", "unknown"]


class Context(Struct, frozen=True, kw_only=True):
    """A rendered mail, its record, and the state of outbox, archive, tree and history.

    :param earlier: all mails of the outbox
    :param decisions: decisions of people and of replies
    :param has_newer_version: function that returns whether the archive has a newer version of a
        posted patch, given its Message-ID; None if mail.toml names no archive of patches
    :param is_reachable: function that returns whether a URL answers; None if links are not checked
    :param check_command: function that returns why schedperf would refuse a printed command, or
        None; None if commands are not checked
    :param undone_by: commits of the watched tree that revert or fix a commit; None if no repository
        with the commit in its tree was given
    :param balance: of the history; None without one
    """

    message: Message
    evidence: Evidence
    site: MailSite
    now: datetime
    earlier: Sequence[Mail] = ()
    decisions: Sequence[Decision] = ()
    has_newer_version: Callable[[str], Answer] | None = None
    is_reachable: Callable[[str], Answer] | None = None
    check_command: Callable[[str], str | None] | None = None
    undone_by: Sequence[str] | None = None
    balance: Balance | None = None
