# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf history``: keep the results of months, and answer questions about them."""

import importlib

import click

_HELP_OPTIONS = {"help_option_names": ["-h", "--help"]}
# By module: the subcommands that change a store, and the questions.
_MODULES = {
    **dict.fromkeys(
        ("add", "check", "decide", "rebuild", "serviced", "watch"),
        "schedperf.commands._history_store",
    ),
    **dict.fromkeys(
        ("diff", "export", "list", "noise", "show", "sql", "why"),
        "schedperf.commands._history_questions",
    ),
}

EPILOG = """\b
Examples:
  schedperf history add base.tar new.tar
  schedperf history list
  schedperf history noise
"""


class _Subcommands(click.Group):
    """The subcommands, which are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 # click's signature
        return sorted(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 # click's signature
        if cmd_name not in _MODULES:
            return None
        module = importlib.import_module(_MODULES[cmd_name])
        command: click.Command = module.COMMANDS[cmd_name]
        command.context_settings.update(_HELP_OPTIONS)
        return command


@click.group(name="history", cls=_Subcommands, epilog=EPILOG)
def command() -> None:
    """Keep the results of months, and answer questions about them.

    A store is a directory with copies of all bundles, the decisions about them, and a database that
    is made from both. docs/history.md describes its tables.
    """
