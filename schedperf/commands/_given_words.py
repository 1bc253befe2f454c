# SPDX-License-Identifier: GPL-2.0-or-later
"""Keep the words of a command line as they were given, for bundles that record their command."""

import click

_KEY = "schedperf.given-words"


class KeepsWords(click.Command):
    """A command whose context stores the words of the command line."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Store the words, then parse them."""
        ctx.meta[_KEY] = [*ctx.command_path.split(), *args]
        return super().parse_args(ctx, args)


def given_words(ctx: click.Context) -> list[str]:
    """Return the command line, with the name of the program: ["schedperf", "vm", …].

    :param ctx: context of a :class:`KeepsWords`; for others, the result is []
    """
    return [str(word) for word in ctx.meta.get(_KEY, ())]
