# SPDX-License-Identifier: GPL-2.0-or-later
"""The options of commands that build commits: --build, --config and --build-timeout."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from schedperf.model.errors import InputError

if TYPE_CHECKING:
    from schedperf.lab.build import Recipe

_BUILD_LIMIT_S = 7200.0

_OPTIONS = (
    click.option("--build", metavar="CMD",
                 help="Build each commit by this shell command in a check-out; it writes bzImage, "
                      "System.map and config to $SCHEDPERF_OUT.  [default: make bzImage]"),
    click.option("--config", metavar="FILE", type=click.Path(path_type=Path),
                 help="Build kernels with this configuration."),
    click.option("--build-timeout", metavar="S", type=click.FloatRange(min=1),
                 default=_BUILD_LIMIT_S, show_default=True, help="Kill a build after S seconds."),
)  # fmt: skip


def build_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def kernel_recipe(options: Mapping[str, Any]) -> "Recipe":
    """Return how the options build kernels.

    :raises InputError: neither a command nor a configuration is given, or it does not exist
    """
    from schedperf.lab.build import DEFAULT_BUILD, Recipe  # noqa: PLC0415 # --help stays fast

    config: Path | None = options["config"]
    if config is not None and not config.is_file():
        raise InputError(f"--config {config}: no such file (expected a kernel's .config)")
    if options["build"] is None and config is None:
        raise InputError(
            "--config: missing (the default build needs the .config of a kernel that boots in a "
            "guest); give --config FILE or --build CMD"
        )
    return Recipe(
        command=options["build"] or DEFAULT_BUILD, config=config, limit_s=options["build_timeout"]
    )
