# SPDX-License-Identifier: GPL-2.0-or-later
"""Print whether the results of ``ab --probe session`` depend on the place."""

from collections.abc import Sequence
from pathlib import Path

import click

from schedperf.commands._outputs import draw_for_stdout
from schedperf_collectors.recorder.places import find_session_places

TITLE = "Does the result depend on where the shell runs?"


def print_places(paths: Sequence[Path]) -> None:
    """Compare the recorded places with the first one, and print one table per result.

    :param paths: bundles of all places, that of this shell first
    :raises InputError: a bundle cannot be read
    """
    # Imported here so that --help of all commands stays fast.
    from schedperf.compare.bundles import compare_bundles  # noqa: PLC0415
    from schedperf.compare.places import judge_places  # noqa: PLC0415
    from schedperf.inputs.bundle.open import open_bundle  # noqa: PLC0415
    from schedperf_reports.places import describe_places  # noqa: PLC0415

    comparison = compare_bundles([open_bundle(path) for path in paths], drawings=False)
    blocks = describe_places(judge_places(comparison), find_session_places().not_tried)
    click.echo(draw_for_stdout(TITLE, blocks, see="schedperf compare"), nl=False)
