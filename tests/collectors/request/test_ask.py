# SPDX-License-Identifier: GPL-2.0-or-later
"""A maintainer's request: what is accepted, and one clear line for everything else."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.jobs import read_tree
from schedperf_collectors.request.ask import MOST_FEATURES, MOST_KERNELS, parse_ask
from schedperf_collectors.request.kernels import fill_slots, release_of, running_kernel
from schedperf_collectors.request.result import Redacted
from schedperf_collectors.request.steps import read_workload
from schedperf_collectors.request.text import MOST_LINES, WIDTH, Answer, write_mail

SMALL = {"name": "lag", "sentence": "Is it slower?", "run": ["hackbench", "-g", "{groups}"],
         "points": {"groups": [1, 4]}}  # fmt: skip


def parse(**changes: Any) -> Any:
    tree = {**SMALL, **changes}
    return parse_ask({key: value for key, value in tree.items() if value is not None}, "ASK.toml")


def test_what_is_not_given_has_a_default() -> None:
    ask = parse()
    assert (ask.name, ask.kernels, ask.features, ask.seconds, ask.reply_to) == (
        "lag", ("*", "*"), (), None, None,
    )  # fmt: skip
    work = read_workload(ask.job)
    assert work.points == ("groups=1", "groups=4")
    assert (work.runs, work.instrumented, work.warmup, work.runs_of_a_side) == (5, 5, 1, 22)
    assert work.command == ("hackbench", "-g", "{groups}")


def test_collectors_that_are_named_are_tried_only() -> None:
    work = read_workload(parse(**{"with": ["default", "bpf_pelt"], "runs": 2}).job)
    assert "--with=default" in work.options
    assert "--try=bpf_pelt" in work.options
    assert not any(word.startswith("--runs") for word in work.options)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"sentence": None}, "sentence: expected a text of at most 300 letters"),
        ({"sentence": " "}, "sentence: expected a text"),
        ({"sentence": "x" * 301}, "sentence: expected a text"),
        ({"sentence": 5}, "sentence: expected a text"),
        ({"sentence": "a\x1b[2Jb"}, "sentence: contains control characters"),
        ({"sentence": "a\u202eb"}, "sentence: contains control characters"),
        ({"reply_to": "a\nb"}, "reply_to: contains control characters"),
        ({"run": ["hackbench", "\x1b[31m"]}, "run: contains control characters"),
        ({"run": "rm -rf /"}, "job lag: run: expected a list of words"),
        ({"run": []}, "job lag: run: expected a list of words"),
        ({"run": ["a", "{threads}"]}, "job lag: points: command: {threads} has no values"),
        ({"points": {"gro\x07ups": [1]}}, "points: contains control characters"),
        ({"name": "../../etc"}, "job 1: name: expected a text of at most 64 letters"),
        ({"name": None}, "job 1: name: expected"),
        ({"command": "hackbench"}, "command: unknown key (expected"),
        ({"kernel": ["6.12"]}, "kernel: unknown key (expected kernels)"),
        ({"setup": "echo 1 > /proc/sys/kernel/x"}, "setup: unknown key (expected"),
        ({"output": "/etc/passwd"}, "output: unknown key (expected"),
        ({"\x1b[2J": 1}, "\\x1b[2J: unknown key (expected"),
        ({"kernels": []}, "kernels: expected a list of 1 to 4 releases"),
        ({"kernels": ["*"] * 5}, "kernels: expected a list of 1 to 4 releases"),
        ({"kernels": ["../x"]}, "kernels: expected a list of 1 to 4 releases"),
        ({"kernels": "6.12"}, "kernels: expected a list of 1 to 4 releases"),
        ({"features": ["PLACE_LAG; reboot"]}, "features: expected a list of at most 3"),
        ({"features": ["NO_PLACE_LAG"]}, "features: expected a list of at most 3"),
        ({"features": ["A", "A"]}, "features: name given twice"),
        ({"seconds_per_run": 0}, "seconds_per_run: expected the duration"),
        ({"seconds_per_run": True}, "seconds_per_run: expected the duration"),
        ({"seconds_per_run": float("nan")}, "seconds_per_run: expected the duration"),
        ({"runs": 0}, "job lag: runs: invalid number '0'"),
        ({"metric": ["a"]}, "job lag: metric: invalid metric rule"),
    ],
)  # fmt: skip
def test_a_hostile_request_is_one_line(changes: dict[str, Any], problem: str) -> None:
    with pytest.raises(RecordError) as raised:
        parse(**changes)
    text = str(raised.value)
    assert text.startswith("ASK.toml: ")
    assert problem in text
    assert text.isprintable()


def test_an_unknown_collector_is_refused() -> None:
    with pytest.raises(RecordError, match="unknown collector 'bpf_palt'"):
        read_workload(parse(**{"with": ["bpf_palt"]}).job)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "name: expected"),
        (b"name = ", "invalid TOML"),
        (b"\xff\xfe", "invalid TOML"),
        (b"{" * 100_000, "larger than 64 KiB"),
        (b"{" * 10_000, "invalid JSON"),
        (None, "no such file or directory; give a request"),
    ],
    ids=["empty", "cut", "binary", "enormous", "nested", "missing"],
)
def test_an_unreadable_file_is_one_line(
    tmp_path: Path, content: bytes | None, problem: str
) -> None:
    path = tmp_path / "ASK.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(RecordError, match=problem) as raised:
        parse_ask({"sentence": "x", **read_tree(path, "a request")}, str(path))
    assert str(raised.value).startswith(f"{path}: ")
    assert str(raised.value).isprintable()


def test_each_kernel_counts_once_and_all_that_fit_are_used() -> None:
    old, new, newer = (f"6.{minor}.0-0123456789a{minor % 10}" for minor in (11, 12, 13))
    assert fill_slots(["*", "*"], [old]) == [old, None]
    assert fill_slots(["*", "*"], [old, old]) == [old, None]
    # The kernel that fits everywhere makes room for the one that does not.
    assert fill_slots(["*", "6.12*"], [new, old]) == [old, new]
    assert fill_slots(["6.12*", "*"], [new, old]) == [new, old]
    assert fill_slots(["6.11*", "6.12*"], [newer]) == [None, None]
    # What is recorded stays.
    assert fill_slots(["*", "*"], [new, newer, old]) == [new, newer]


def test_the_running_kernel_has_a_name_that_a_file_can_have() -> None:
    kernel = running_kernel()
    assert "/" not in kernel
    assert release_of(kernel) is not None


def test_the_longest_mail_fits() -> None:
    kernels = [f"6.1{i}.0-{'x' * 50}-0123456789a{i}" for i in range(MOST_KERNELS)]
    features = [f"FEATURE_{'X' * 40}_{i}" for i in range(MOST_FEATURES)]
    ask = parse(
        sentence="word " * 59,
        kernels=["*"] * MOST_KERNELS,
        features=features,
        run=["hackbench", *(["--option"] * 500), "{groups}"],
        points={"groups": list(range(500))},
    )
    host = {
        "cpu": {"model": "x " * 400, "count_online": 256},
        "kernel": {"release": "y" * 64},
        "system": {"distro": "z " * 400},
    }
    names = [f"{each}.tar" for each in kernels]
    names += [f"{k}+{f}-{no}{f}.tar" for k in kernels for f in features for no in ("NO_", "")]
    bundles = [Redacted(name, b"", host, 10**6, 10**6, Counter(x=10**6)) for name in names]
    answer = Answer(ask, read_workload(ask.job), tuple(kernels), tuple(bundles), "lag.tar")
    lines = write_mail(answer).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(len(line) for line in lines if "schedperf compare" not in line) <= WIDTH
    # Nothing is cut off at the end.
    assert lines[-1].endswith(f"-{features[-1]}.tar")
