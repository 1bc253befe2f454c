# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps, plans and bundles for the tests of retests."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from schedperf.history.questions.history import open_history
from schedperf.history.store.decisions import Requested, StepChanged
from schedperf.history.store.directory import Directory
from schedperf.history.store.writer import writing
from tests.histories import MACHINE, add_to, make_night, make_recording, night_name

STEP = "5e9a1b2c3d4e"
REQUEST = "00112233aabb"
NIGHTS, PLACE = 10, 6
# What the bundles of a night record.
WORKLOAD = "hackbench -l 100 -g 4"
LOOKS = [[4, 0.0005], [8, 0.0012], [12, 0.002], [16, 0.0025]]
# Logarithms of boots: mean 0, standard deviation 1%.
NOISE = [0.01, -0.01, 0.01, -0.01, 0.005, -0.005, 0.013, -0.013] * 2


def make_store(folder: Path, **changes: Any) -> Directory:
    """Make a store of ten nights with a suspected step of +10%, whose retest is requested.

    :param changes: fields of the step that are others
    """
    for number in range(NIGHTS):
        make_night(folder / "nights", number, base=0.5, new=0.5 if number < PLACE else 0.55)
    directory, _ = add_to(folder / "history", folder / "nights")
    with open_history(directory.folder) as history:
        [series] = history.series()
        night = history.nights(series)[PLACE]
    step: dict[str, Any] = {
        "step": STEP, "series": series.key, "position": night.position,
        "night": night_name(PLACE), "direction": "worse", "state": "suspected", "change": 0.10,
        "ci_low": 0.08, "ci_high": 0.12, "reason": "lasting change",
    }  # fmt: skip
    requested = Requested(
        request=REQUEST, kind="retest", machine=MACHINE, job=WORKLOAD, step=STEP, boots=16, why="+"
    )
    with writing(directory, print) as writer:
        writer.commit([(StepChanged(**{**step, **changes}), None), (requested, None)])
    return directory


def make_plan(**changes: Any) -> dict[str, Any]:
    """Return the plan of a retest of +10%."""
    plan = {
        "workload": WORKLOAD, "point": "", "metric": "hackbench time", "direction": "higher",
        "seen": 0.10, "looks": LOOKS, "step": None,
    }  # fmt: skip
    return {**plan, **changes}


def record_boots(
    path: Path, side: str, times: Sequence[float], plan: Any = None, **chosen: Any
) -> Path:
    """Write a bundle with one run in each boot.

    :param plan: of the retest; None for another recording
    """
    start = 0 if side == "base" else 1
    runs = [
        {
            "boot": boot,
            "run": 0,
            "boot_id": f"{side}-{boot}",
            "session": "5e",
            "side": None,
            # Interleaved: base new new base …
            "order": 2 * boot + (start if boot % 2 == 0 else 1 - start),
            "round": boot,
            "time_s": time,
        }
        for boot, time in enumerate(times)
    ]
    release = {"base": "6.18.0", "new": "6.19.0"}[side]
    return make_recording(
        path, night_name(20), side, [], runs=runs, release=release, manifest={"retest": plan},
        **chosen,
    )  # fmt: skip
