# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf ab --until-decided``: real pairs that stop when they know enough."""

import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from schedperf.cli import main
from schedperf.compare.bundles import compare_bundles
from schedperf.inputs.bundle.open import Bundle, open_bundle

pytestmark = pytest.mark.system

RULE = ("--metric", "rate[1/s,higher]=rate: ([0-9.]+)")
QUIET = ("--with", "none", "--warmup", "0", "--seed", "1")
SIDES = ("-o", "s", "--base-setup", "export SIDE=base", "--new-setup", "export SIDE=new")
# Prints the next line of the side's file of values.
SCRIPT = 'n=$(cat n$SIDE); echo $((n + 1)) >n$SIDE; sed -n "$n"p values$SIDE'

Prepare = Callable[..., None]


@pytest.fixture
def prepare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Prepare:
    """Say what the workload will print: numbers around a mean, with this standard deviation."""
    monkeypatch.chdir(tmp_path)

    def write(*, new: float, sd: float = 0.5) -> None:
        for seed, (side, mean) in enumerate({"base": 1000.0, "new": new}.items()):
            draw = random.Random(seed)  # noqa: S311 # noise, not a secret
            lines = [f"rate: {draw.gauss(mean, sd * mean / 100.0):.4f}\n" for _ in range(50)]
            Path(f"values{side}").write_text("".join(lines))
            Path(f"n{side}").write_text("1\n")

    return write


def until_decided(*options: str, script: str = SCRIPT) -> int:
    return main(
        ["ab", *SIDES, "--until-decided", *options, *QUIET, *RULE, "--", "sh", "-c", script]
    )


def both() -> list[Bundle]:
    return [open_bundle(Path(f"s-{side}.tar")) for side in ("base", "new")]


def test_pairs_stop_as_soon_as_they_show_a_regression(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare(new=700.0)
    assert until_decided("--max-runs", "12") == 0
    captured = capfd.readouterr()
    assert captured.out == "schedperf compare s-base.tar s-new.tar\n"
    base, new = both()
    made = len(new.runs)
    # Pairs need no ten runs to tell a change from drift.
    assert 3 <= made < 10
    assert f"interim test after {made} pairs: decided: rate: regression, worse: " in captured.err
    for side in (base, new):
        assert side.sequential is not None
        assert (side.sequential.against, side.sequential.max_runs) == (None, 12)
        assert side.sequential.looks == tuple(range(3, made + 1))
        assert (len(side.runs), side.complete, side.planned_runs) == (made, True, made)
    # Whoever compares later finds what the look found, and reads what p allows for.
    comparison = compare_bundles([base, new])
    assert comparison.rows[0].reason in str(new.sequential and new.sequential.stopped)
    [caveat] = [caveat for caveat in comparison.caveats if caveat.code == "looks"]
    assert caveat.text == (
        "new was recorded with --until-decided and at most 12 pairs, so p and the equivalence test "
        "are corrected for group-sequential stopping"
    )


def test_pairs_that_vary_too_much_end_with_the_budget(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare(new=1000.0, sd=20.0)
    assert until_decided("-n", "4", "--max-runs", "5") == 0
    said = capfd.readouterr().err
    still = r"open: rate \(1 of 1 rows\); about [0-9]+ more pairs may still be needed"
    assert re.search(rf"interim test after 4 pairs: {still}\n", said)
    assert re.search(rf"interim test after 5 pairs: all 5 pairs were made; {still}\n", said)
    assert "drift" not in said
    assert [len(side.runs) for side in both()] == [5, 5]


def test_pairs_without_a_result_end_at_the_first_look(
    prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    prepare(new=1000.0)
    assert until_decided(script="echo nothing") == 0
    why = "no verdict is possible without a primary result"
    assert f"interim test after 3 pairs: {why}\n" in capfd.readouterr().err
    assert [len(side.runs) for side in both()] == [3, 3]


def test_the_correction_holds_for_either_side_as_base(prepare: Prepare) -> None:
    prepare(new=1010.0, sd=1.0)
    assert until_decided("-n", "4", "--max-runs", "5") == 0
    base, new = both()
    [there], [back] = (compare_bundles(pair).rows for pair in ([base, new], [new, base]))
    assert there.p is not None
    assert there.p == pytest.approx(back.p)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("-o", "s", "--max-runs", "5"), "--max-runs: only valid with --until-decided; add"),
        (("-o", "s", "--until-decided", "--append"), "--append: cannot be combined with --until-"),
        (
            ("-o", "s", *(f"--setup={name}=" for name in "abc"), "--until-decided"),
            "--until-decided: 3 sides (expected two); set the number of rounds with -n",
        ),
        (("-o", "s", "--until-decided", "-n", "2"), "-n 2 --max-runs 30: out of range (expected 3"),
        (
            ("-o", "s", "--kernel", "a=1", "--kernel", "b=2", "--until-decided"),
            "--until-decided: cannot be combined with --kernel; set the number of boots with",
        ),
    ],
)
def test_a_slip_is_one_clear_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    complaint: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["ab", *options, "--", "true"]) == 2
    said = capfd.readouterr().err
    assert said.startswith(f"schedperf: error: {complaint}")
    assert said.count("\n") == 1
    assert not list(tmp_path.iterdir())
