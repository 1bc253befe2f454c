# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf ab``: record two or more settings of this machine, interleaved."""

from collections.abc import Sequence

from schedperf.commands._recorder import RecorderCommand, probed_bundles, run_recorder


def _record(arguments: Sequence[str]) -> int:
    words = ["ab", *arguments]
    status = run_recorder(words)
    paths = () if status else probed_bundles(words)
    if paths:
        # Imported here so that --help of all commands stays fast.
        from schedperf.commands._probe import print_places  # noqa: PLC0415

        print_places(paths)
    return status


command = RecorderCommand("ab", _record)
