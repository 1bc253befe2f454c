# SPDX-License-Identifier: GPL-2.0-or-later
"""Complete the names of collectors, the values of ``--with`` and ``--without``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class CollectorNames(click.ParamType[str]):
    """Names of collectors with commas between them: ``default,bpf_pelt``.

    :param words: words that may be given besides the names
    """

    name = "names"

    def __init__(self, words: Sequence[str] = ("default", "none")) -> None:
        self._words = tuple(words)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 # click's signature
        param: click.Parameter,  # noqa: ARG002
        incomplete: str,
    ) -> "list[CompletionItem]":
        """Complete the last name."""
        # Imported here: it imports all collectors.
        from click.shell_completion import CompletionItem  # noqa: PLC0415

        from schedperf_collectors.plugin import all_collectors  # noqa: PLC0415

        before, comma, last = incomplete.rpartition(",")
        named = before.split(",")
        return [
            CompletionItem(f"{before}{comma}{name}")
            for name in (*self._words, *sorted(all_collectors()))
            if name.startswith(last) and name not in named
        ]
