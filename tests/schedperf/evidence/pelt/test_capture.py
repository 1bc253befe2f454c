# SPDX-License-Identifier: GPL-2.0-or-later
"""pelt.json: what is read of it, and what no file of strangers can do."""

import json
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from schedperf.evidence.pelt.capture import LARGEST_COUNT, MOST_CPUS, parse_bpf_pelt
from schedperf.model.errors import InputError

Json = dict[str, Any]
Make = Callable[..., Json]


def encode(content: Json) -> bytes:
    return json.dumps(content).encode()


@pytest.fixture
def good(capture: Make, function: Make) -> Json:
    """Return a file that has everything, as it may be changed by one test."""
    made = capture(
        {
            "update_cfs_group": function({0: 120, 2: 60}, 200),
            "update_load_avg": function(
                {0: 300}, None, mechanism="breakpoint", contexts=None,
                tried={"fentry/fexit": "device or resource busy", "breakpoint": None},
            ),
            "pelt_se_tp": {"mechanism": None, "tried": {"raw_tracepoint": "no such tracepoint"},
                           "calls": None, "contexts": None, "durations": None,
                           "lost": {"unpaired": 0, "nested": 0}},
        },
        breakpoints={"functions": {"update_cfs_group": 180, "update_load_avg": None}},
        lost_cpus=[3],
        notes=["CPU 3 went offline"],
    )  # fmt: skip
    parsed: Json = json.loads(json.dumps(made))
    return parsed


def put(content: Json, path: str, value: Any) -> Json:
    """Change one value in place: ``put(good, "functions/update_cfs_group/calls", {})``."""
    *way, last = path.split("/")
    for name in way:
        content = content[name]
    content[last] = value
    return content


def test_calls_contexts_and_durations_are_read_by_cpu(good: Json) -> None:
    found = parse_bpf_pelt(encode(good), "pelt.json")
    assert (found.seconds, found.sampling, found.lost_cpus) == (2.0, 1, (3,))
    seen = found.functions["update_cfs_group"]
    assert seen.mechanism == "fentry/fexit"
    assert seen.calls == {0: 120, 2: 60}
    assert seen.contexts is not None
    assert seen.contexts["enqueue"] == {0: 80, 2: 40}
    assert seen.durations is not None
    assert seen.durations.sum_ns == {0: 24000, 2: 12000}
    # 200 ns: 2**7 <= 200 < 2**8, and the fifth bin of 50 ns.
    assert (seen.durations.log2_ns[0][7], seen.durations.linear_ns[2][4]) == (120, 60)
    assert found.contexts.markers == {
        "enqueue": ("enqueue_task_fair",),
        "dequeue": ("dequeue_task_fair",),
    }


def test_what_could_not_be_seen_is_none_and_never_0(good: Json) -> None:
    found = parse_bpf_pelt(encode(good), "pelt.json")
    unseen = found.functions["pelt_se_tp"]
    assert (unseen.mechanism, unseen.calls, unseen.durations) == (None, None, None)
    assert unseen.tried == {"raw_tracepoint": "no such tracepoint"}
    counted = found.functions["update_load_avg"]
    assert counted.durations is None
    assert counted.contexts is None
    assert found.calls_by_breakpoint("update_cfs_group") == 180
    assert found.calls_by_breakpoint("update_load_avg") is None
    assert found.empty_probe is not None
    assert (found.empty_probe.reads_ns, found.empty_probe.pair_ci) == (40.0, (85.0, 95.0))
    assert found.empty_probe.reads_ci == (0.0, 50.0)
    good["empty_probe"] = good["breakpoints"] = None
    assert parse_bpf_pelt(encode(good), "pelt.json").empty_probe is None


CFS = "functions/update_cfs_group"


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        ("schema", "schedperf/bpf_pelt/2", r"pelt.json: \$.schema is .*/2\" .expected .*/1"),
        ("seconds", 0, r"\$.seconds is 0 .expected float >= 1e-06"),
        ("seconds", 1e300, r"\$.seconds is 1e\+300 .expected float <= 1"),
        ("seconds", True, "seconds is true"),
        ("sampling", 0, "sampling is 0 .expected int >= 1"),
        ("functions", [], "functions is .* .expected object"),
        ("functions", {"\x1b[31m": {}}, r"key in \$.functions is invalid .expected str matching"),
        (
            "functions",
            {f"f{number}": {} for number in range(33)},
            "functions is .* .expected object of length <= 32",
        ),
        (f"{CFS}/mechanism", 7, "mechanism is invalid .expected str"),
        (f"{CFS}/tried", {"kprobe": ["x"]}, "tried.* is invalid .expected str"),
        (f"{CFS}/calls", None, "only one of mechanism and calls is null"),
        (f"{CFS}/calls", {"0": -1}, "calls.* is invalid .expected int >= 0"),
        (f"{CFS}/calls", {"0": 1.5}, "expected int, got float"),
        (f"{CFS}/calls", {"0": LARGEST_COUNT + 1}, "expected int <= "),
        (f"{CFS}/calls", {"zero": 1}, "expected int, got str"),
        (f"{CFS}/calls", {"00": 1}, "expected int, got str"),
        (f"{CFS}/calls", {"-1": 1}, "expected int >= 0"),
        (f"{CFS}/calls", {str(MOST_CPUS): 1}, "expected int <= 8191"),
        (
            f"{CFS}/calls",
            {str(cpu): 0 for cpu in range(MOST_CPUS + 1)},
            "of length <= 8192|int <= 8191",
        ),
        (f"{CFS}/calls", {"0": 17}, "contexts sums to 180 .expected 17, the sum of calls"),
        (f"{CFS}/contexts", {"enqueue": {"0": 9}}, "contexts sums to 9 .expected 180"),
        (
            f"{CFS}/contexts",
            {f"c{number}": {} for number in range(17)},
            "contexts is invalid .expected object of length <= 16",
        ),
        (
            f"{CFS}/durations/timed",
            {"0": 999, "2": 0},
            "log2_ns sums to 180 .expected 999, the sum of timed",
        ),
        (f"{CFS}/durations/sum_ns", {"0": 1}, "timed and sum_ns list different CPUs"),
        (f"{CFS}/durations/linear_step_ns", 0, "linear_step_ns is invalid .expected int >= 1"),
        (f"{CFS}/durations/log2_ns", {"0": [1] * 65}, "array of length <= 64"),
        (f"{CFS}/durations/log2_ns", {"0": []}, "array of length >= 1"),
        (f"{CFS}/durations/log2_ns", {"0": 10**9}, "expected array, got int"),
        (f"{CFS}/durations/log2_ns", {"0": [-1]}, "expected int >= 0"),
        (f"{CFS}/durations/linear_ns", {"0": [0] * 1025}, "array of length <= 1024"),
        (
            f"{CFS}/durations/linear_ns",
            {"0": [90], "2": [90, 0]},
            "the number of bins differs between CPUs",
        ),
        (f"{CFS}/durations/linear_ns", {"0": [9]}, "linear_ns sums to 9 .expected 180"),
        (f"{CFS}/lost", {"unpaired": -1}, "unpaired is invalid .expected int >= 0"),
        ("contexts", None, "contexts is null .expected object"),
        ("contexts/markers", {"enqueue": "f"}, "expected array, got str"),
        ("contexts/markers", {"enqueue": ["f"] * 33}, "expected array of length <= 32"),
        ("contexts/missing", {"tick": 5}, "missing.* is invalid .expected str"),
        ("empty_probe/pair_ns", "fast", "expected float"),
        ("empty_probe/pair_ns", 1e12, "expected float <= 1"),
        ("empty_probe/pair_ci", [1.0], "expected array of length 2"),
        ("empty_probe/pair_ci", [1.0, None], "expected float, got null"),
        ("breakpoints", {"functions": {"f": -2}}, "breakpoints.functions.* .expected int >= 0"),
        ("loader", {}, r"\$.loader.asked is missing"),
        ("loader", {"asked": "auto", "tried": {"libbpf": 1}, "seconds": 0}, "expected str"),
        ("lost_cpus", [MOST_CPUS], "is 8192 .expected int <= 8191"),
        ("notes", "x", "expected array"),
    ],
)
def test_what_cannot_be_is_one_line_that_names_the_place(
    good: Json, path: str, value: Any, problem: str
) -> None:
    put(good, path, value)
    with pytest.raises(InputError, match=problem) as caught:
        parse_bpf_pelt(encode(good), "pelt.json")
    message = str(caught.value)
    assert message.startswith("pelt.json: ")
    assert "\n" not in message
    assert len(message) < 300


def test_more_timed_calls_than_calls_are_refused(good: Json) -> None:
    good["functions"]["update_cfs_group"] |= {"contexts": None, "calls": {"0": 17}}
    with pytest.raises(
        InputError, match=r"180 timed calls \(expected at most 17, the number of counted calls\)"
    ):
        parse_bpf_pelt(encode(good), "pelt.json")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seconds": NaN}', "[" * 10_000, "\xff"])
def test_what_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="pelt.json: "):
        parse_bpf_pelt(text.encode("latin-1"), "pelt.json")


def test_a_damaged_file_is_one_error_or_a_record(good: Json) -> None:
    content, generator = encode(good), random.Random(6)  # noqa: S311 # no secret
    refused = 0
    for _ in range(600):
        damaged = bytearray(content[: generator.randrange(len(content) // 2, len(content) + 1)])
        damaged[generator.randrange(len(damaged))] ^= 1 << generator.randrange(8)
        try:
            parse_bpf_pelt(bytes(damaged), "pelt.json")
        except InputError:
            refused += 1
    assert refused > 300


def test_texts_are_cut(good: Json) -> None:
    good["notes"] = ["x" * 100_000]
    good["contexts"]["missing"] = {"fork": "y" * 100_000}
    found = parse_bpf_pelt(encode(good), "pelt.json")
    assert max(map(len, (*found.notes, *found.contexts.missing.values()))) == 300


def test_calls_that_two_programs_saw_differently_by_a_few_are_no_damage(good: Json) -> None:
    good["functions"]["update_cfs_group"]["calls"]["0"] += 2
    assert parse_bpf_pelt(encode(good), "pelt.json").functions


def test_the_largest_machine_is_read_in_seconds(capture: Make, function: Make) -> None:
    calls = dict.fromkeys(range(MOST_CPUS), 3)
    content = encode(capture({name: function(calls) for name in ("update_cfs_group", "b", "c")}))
    begin = time.process_time()
    found = parse_bpf_pelt(content, "pelt.json")
    assert sum((found.functions["c"].calls or {}).values()) == 3 * MOST_CPUS
    assert time.process_time() - begin < 20.0
