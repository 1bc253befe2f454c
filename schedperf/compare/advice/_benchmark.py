# SPDX-License-Identifier: GPL-2.0-or-later
"""Suggest recording a benchmark on the same kernels if the workload prints nothing."""

from schedperf.compare.advice._contrast import Contrast, Pair, kernel_images
from schedperf.compare.advice.intent import COMPARE, Intent, Step, intend
from schedperf.compare.advice.recorded import Recorded

# The reader replaces the words in capitals.
BENCHMARK = ("-n", "5", "--", "WORKLOAD")


def record_benchmark(contrast: Contrast, pair: Pair) -> Step:
    """Return the step that records another workload on base and all sides recorded like it.

    The commands are `record` or `vm`, because `rerun` cannot change the workload. They write new
    bundles, so that the existing ones are kept. The step has no commands for interleaved recordings
    and for recordings with a setup, service or teardown, because these cannot be repeated without
    text of a bundle.
    """
    is_each = pair.program == "record" and contrast.has_other_kernel()
    return Step(
        id="record-benchmark",
        what=f"{'boot each kernel and ' if is_each else ''}record a benchmark as workload",
        why="the output of the workload is empty",
        commands=_commands(contrast, pair),
    )


def _commands(contrast: Contrast, pair: Pair) -> tuple[Intent, ...]:
    recordings = contrast.recordings.items()
    sides = {name: side for name, side in recordings if side.program == pair.base.program}
    # Advice contains no text of a bundle, so a setting cannot be applied.
    if pair.program in ("ab", "boots") or any(side.scripts for side in sides.values()):
        return ()
    bundles = [f"{_stem(side)}.tar" for side in sides.values()]
    compare = intend(COMPARE, paths=bundles)
    if pair.program == "record":
        return (*(intend("record", "-o", bundle, *BENCHMARK) for bundle in bundles), compare)
    images = kernel_images({_stem(side): name for name, side in sides.items()})
    return (Intent("vm", images=images, options=BENCHMARK), compare)


def _stem(side: Recorded) -> str:
    return f"{side.stem}-benchmark"
