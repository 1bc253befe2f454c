# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf completion``: print the completion script for a shell."""

import click
from click.shell_completion import get_completion_class

from schedperf.commands import COMPLETE

EPILOG = """\b
Add one line to the start-up file of the shell (in ~/.zshrc after compinit):
  ~/.bashrc                   eval "$(schedperf completion bash)"
  ~/.zshrc                    eval "$(schedperf completion zsh)"
  ~/.config/fish/config.fish  schedperf completion fish | source

\b
Examples:
  schedperf completion bash
  schedperf completion zsh >_schedperf
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    The script completes commands, options, their values and files. It needs bash 4.4 or
    newer, zsh, or fish.
    """
    generator = get_completion_class(shell)
    assert generator is not None
    program = ctx.find_root().command
    click.echo(generator(program, {}, "schedperf", COMPLETE).source())
