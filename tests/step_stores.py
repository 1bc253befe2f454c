# SPDX-License-Identifier: GPL-2.0-or-later
"""Stores with the nights of hackbench on two kernels, and the steps in them, for tests."""

from datetime import date, timedelta
from pathlib import Path
from typing import Any

from schedperf.history.questions.history import open_history
from schedperf.history.store.decisions import StepChanged
from schedperf.history.store.directory import Directory
from schedperf.history.store.nights import position_of
from schedperf.history.store.writer import writing
from tests.histories import add_to
from tests.mail_inputs import HACKBENCH, Recorded, write_kernel

STEP = "5e9a1b2c3d4e"
OTHER_STEP = "00aa11bb22cc"
# A Monday, and the first night after the step: both are in 2026-W48.
PLACE = date(2026, 11, 23)
NIGHTS_BEFORE, NIGHTS_AFTER = 3, 2
MACHINE = "2x48"
QUIET = Recorded(
    workload=HACKBENCH.workload,
    points=HACKBENCH.points,
    show=HACKBENCH.show,
    factors=dict.fromkeys(HACKBENCH.factors, (1.0, 1.0, 1.0)),
)


def write_night(folder: Path, day: date, *, is_slow: bool, session: str = "") -> list[Path]:
    """Write the bundles of a night: the reference kernel, and one that is slow or not."""
    name = f"{day:%Y-%m-%d}"
    manifest = {"created": f"{name}T22:00:00.000000Z", "machine": MACHINE}
    recorded = HACKBENCH if is_slow else QUIET
    paths = []
    for kernel in ("base", "new"):
        path = folder / f"{name}{session}" / f"night-{kernel}.tar"
        path.parent.mkdir(parents=True, exist_ok=True)
        paths.append(write_kernel(path, kernel, recorded, session=f"{name}{session}", **manifest))
    return paths


def make_step_store(folder: Path, **changes: Any) -> Directory:
    """Make a store of five nights; with 16 groups, the last two have a step of +21%.

    :param changes: fields of the step that are others
    """
    paths = [
        path
        for offset in range(-NIGHTS_BEFORE, NIGHTS_AFTER)
        for path in write_night(
            folder / "nights", PLACE + timedelta(days=offset), is_slow=offset >= 0
        )
    ]
    from schedperf.history.store.add import Options  # noqa: PLC0415 # only this needs it

    directory, _ = add_to(folder / "history", *paths, options=Options(references=("night-base",)))
    decide(directory, **changes)
    return directory


def decide(directory: Directory, point: str = "groups=16", **changes: Any) -> None:
    """Store a decision about a step of a series.

    :param changes: fields of the decision that are others
    """
    with open_history(directory.folder) as history:
        series = next(each for each in history.series() if each.point == point)
    night = changes.get("night", f"{PLACE:%Y-%m-%d}")
    fields: dict[str, Any] = {
        "step": STEP, "series": series.key, "position": position_of(night), "night": night,
        "direction": "worse", "state": "suspected", "change": 0.21, "ci_low": 0.2,
        "ci_high": 0.22, "reason": "lasting change",
        "numbers": {"found": position_of(night)},
    }  # fmt: skip
    with writing(directory, print) as writer:
        writer.commit([(StepChanged(**{**fields, **changes}), None)])


def state_of(directory: Directory, step: str = STEP) -> str:
    """Return the state of a step."""
    with open_history(directory.folder) as history:
        return history.step(step).state
