# SPDX-License-Identifier: GPL-2.0-or-later
"""schedperf.compare.advice.rerun: where the commands that record a side again can be run."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from schedperf.bundle.open import open_bundle
from schedperf.compare.advice.rerun import LOCAL_FILE
from schedperf.compare.bundles import compare_bundles
from schedperf.model.comparison import Comparison, NextStep

MakeBundle = Callable[..., Path]

TIMES = ((0.5, 0.7, 0.6, 0.55, 0.65), (0.6, 0.8, 0.5, 0.7, 0.62))
SETUP = "echo 0 >/proc/sys/kernel/x && ./enter-cgroup 8 $$"


@pytest.fixture
def advise(
    make_bundle: MakeBundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., NextStep]:
    """Return the step of an open result, of bundles in directories below that of the process."""
    monkeypatch.chdir(tmp_path)

    def advise(*names: str, in_rounds: bool = True, **facts: Any) -> NextStep:
        for name, times in zip(names, TIMES, strict=True):
            Path(name).parent.mkdir(exist_ok=True)
            runs = [
                {"time_s": time, **({"round": place} if in_rounds else {})}
                for place, time in enumerate(times)
            ]
            make_bundle(Path(name), runs=runs, **facts)
        found: Comparison = compare_bundles([open_bundle(Path(name)) for name in names])
        return next(one for one in found.next_steps if one.id == "more-runs")

    return advise


@pytest.mark.parametrize(
    ("script", "files"),
    [
        (SETUP, ["./enter-cgroup"]),
        ("cd /tmp; (../a.sh) && './b'", ["../a.sh", "./b"]),
        ("/usr/bin/x --file=./c >./d|./e", ["./c", "./d", "./e"]),
        ("echo a/./b .. ./", []),
    ],
)
def test_files_of_the_folder_are_found_in_a_script(script: str, files: list[str]) -> None:
    assert LOCAL_FILE.findall(script) == files


def test_a_setup_that_needs_no_folder_leaves_the_bundles_beside_the_old_ones(
    advise: Callable[..., NextStep],
) -> None:
    found = advise("out/base.tar", "out/new.tar", setup="echo 0 >/proc/sys/kernel/x")
    assert found.commands[-1] == "schedperf compare out/base-more.tar out/new-more.tar"
    assert "folder" not in found.why


def test_new_bundles_never_get_one_name(advise: Callable[..., NextStep]) -> None:
    found = advise("a/x.tar", "b/x.tar", setup=SETUP)
    assert found.commands[-1] == "schedperf compare a/x-more.tar b/x-more.tar"


@pytest.mark.parametrize("in_rounds", [True, False])
def test_a_file_of_the_recording_is_to_be_copied_so_that_all_paths_exist(
    advise: Callable[..., NextStep], *, in_rounds: bool
) -> None:
    found = advise("out/base.tar", "out/new.tar", in_rounds=in_rounds, workload="./bench -g 4")
    target = "--base base-more.tar --new new-more.tar" if in_rounds else "--append out/base.tar"
    assert target in found.commands[0]
    assert found.why.endswith("; copy ./bench of the recording to the current directory first")
