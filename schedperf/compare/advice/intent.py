# SPDX-License-Identifier: GPL-2.0-or-later
"""Describe the command that a next step suggests."""

from collections.abc import Sequence

from msgspec import Struct

from schedperf.model.comparison import NextStep
from schedperf_collectors.contract import format_template

RERUN = "rerun"
COMPARE = "compare"


class Intent(Struct, frozen=True):
    """A command of schedperf, with the bundles and kernels that it is about.

    :param action: the subcommand: "rerun"
    :param paths: bundles, base first
    :param images: kernel images for guests: ("tip=BASE_BZIMAGE",)
    :param options: all other words
    """

    action: str
    paths: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """Return the command for a shell.

        >>> Intent("show", ("my base.tar",), options=("--point", "{groups}")).line
        "schedperf show 'my base.tar' --point {groups}"
        """
        kernels = [word for image in self.images for word in ("--kernel", image)]
        return f"schedperf {format_template((self.action, *self.paths, *kernels, *self.options))}"


class Step(Struct, frozen=True, kw_only=True):
    """A next step whose commands are not yet lines for a shell."""

    id: str
    what: str
    why: str
    commands: tuple[Intent, ...]
    conditions: tuple[str, ...] = ()

    def render(self) -> NextStep:
        """Return the step for the record."""
        return NextStep(
            id=self.id,
            what=self.what,
            why=self.why,
            commands=tuple(command.line for command in self.commands),
            conditions=self.conditions,
        )


def intend(action: str, *options: str, paths: Sequence[str] = ()) -> Intent:
    """Return a command with these bundles and options."""
    return Intent(action, paths=tuple(map(as_argument, paths)), options=options)


def as_argument(path: str) -> str:
    """Return a path as a command-line argument: a path such as -x.tar would look like an option."""
    return f"./{path}" if path.startswith("-") else path
