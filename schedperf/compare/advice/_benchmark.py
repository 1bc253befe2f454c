# SPDX-License-Identifier: GPL-2.0-or-later
"""Next step if the workload prints nothing: record a benchmark on the same kernels."""

from schedperf.compare.advice._contrast import Contrast, Pair, kernel_images
from schedperf.compare.advice.rerun import Recording, join
from schedperf.model.comparison import NextStep

# The reader replaces the words in capitals.
BENCHMARK = ("-n", "5", "--", "WORKLOAD")


def record_benchmark(contrast: Contrast, pair: Pair) -> NextStep:
    """Return the step that records another workload; it is the same for all new sides.

    No option of `rerun` takes another workload, and the bundles of the recorded one stay.
    """
    is_each = pair.program == "record" and contrast.has_other_kernel()
    return NextStep(
        id="record-benchmark",
        what=f"{'boot each kernel and ' if is_each else ''}record a benchmark as workload",
        why="the output of the workload is empty",
        commands=_commands(contrast, pair),
    )


def _commands(contrast: Contrast, pair: Pair) -> tuple[str, ...]:
    recordings = contrast.recordings.items()
    sides = {name: side for name, side in recordings if side.program == pair.base.program}
    # Advice has no text of a bundle, so a setting cannot be applied.
    if pair.program in ("ab", "boots") or any(side.scripts for side in sides.values()):
        return ()
    bundles = [f"{_stem(side)}.tar" for side in sides.values()]
    compare = join("compare", *bundles)
    if pair.program == "record":
        return (*(join("record", "-o", bundle, *BENCHMARK) for bundle in bundles), compare)
    images = kernel_images({_stem(side): name for name, side in sides.items()})
    return (join("vm", *images, *BENCHMARK), compare)


def _stem(side: Recording) -> str:
    return f"{side.stem}-benchmark"
