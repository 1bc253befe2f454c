# SPDX-License-Identifier: GPL-2.0-or-later
"""What manifest.json, run.json and host.json may hold: anything else is refused with its key."""

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schedperf.inputs.bundle.manifest import parse_manifest, parse_run
from schedperf.inputs.bundle.open import open_bundle
from schedperf.model.errors import BundleError

MakeBundle = Callable[..., Path]
MakeMembers = Callable[..., dict[str, bytes]]
MakeTar = Callable[[Path, Iterable[tuple[str, bytes]]], Path]

RUN = "boots/0/runs/000/run.json"
HOST = "boots/0/host.json"
MANIFEST = "manifest.json"


def changed(content: bytes, **changes: object) -> bytes:
    return json.dumps({**json.loads(content), **changes}).encode()


def without(content: bytes, key: str) -> bytes:
    values = json.loads(content)
    del values[key]
    return json.dumps(values).encode()


DEEP = b'{"format": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
NUMBER = b'{"format": 1' + b"0" * 5000 + b"}"
BAD_JSON = {
    "depth beyond the parser's own limit": (
        DEEP,
        r"nested too deeply \(expected at most 32 levels\)",
    ),
    "depth beyond ours": (
        b"[" * 33 + b"]" * 33,
        r"nested too deeply \(expected at most 32 levels\)",
    ),
    "an integer of 5000 digits": (NUMBER, "invalid JSON"),
    "an integer beyond 64 bits": (b'{"format": 9223372036854775808}', "number too large"),
    "a float beyond 1e308": (b'{"format": 1e999}', "number too large"),
    "NaN": (b'{"format": NaN}', "invalid number NaN"),
    "Infinity": (b'{"format": -Infinity}', "invalid number -Infinity"),
    "half an object": (b'{"format": ', "invalid JSON"),
    "nothing": (b"", "invalid JSON"),
    "bytes that are no text": (b'{"format": "\xff"}', "invalid UTF-8"),
    "a list": (b"[]", "expected object, got array"),
}


@pytest.mark.parametrize("name", [MANIFEST, RUN, HOST])
@pytest.mark.parametrize("case", BAD_JSON)
def test_json_that_cannot_be_used_is_refused_and_salvaged_around(
    case: str, name: str, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
) -> None:
    content, problem = BAD_JSON[case]
    members = make_members(manifest=None)
    members[name] = content
    path = make_tar(tmp_path / "b.tar", members.items())
    with pytest.raises(BundleError, match=problem) as caught:
        open_bundle(path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)
    salvaged = open_bundle(path, salvage=True)
    assert [caveat.code for caveat in salvaged.caveats].count("damaged") == 1
    assert len(salvaged.runs) == 5 - (name == RUN)


COMMIT = "0123456789abcdef0123456789abcdef01234567"
STORED = {"collector": "x", "path": "x", "status": "ok", "sha256": "0" * 64, "bytes": 1}
WRONG_KEYS: list[tuple[str, dict[str, Any], str]] = [
    (MANIFEST, {"label": 7}, "$.label is 7 (expected str, got int)"),
    (MANIFEST, {"version": "1.0"}, '$.version is "1.0" (expected object, got str)'),
    (MANIFEST, {"version": {"major": True, "minor": 0}},
     "$.version.major is true (expected int, got bool)"),
    (MANIFEST, {"complete": 1}, "$.complete is 1 (expected bool, got int)"),
    (MANIFEST, {"planned_runs": -1}, "$.planned_runs is -1 (expected int >= 0)"),
    (MANIFEST, {"points": "groups=1"}, '$.points is "groups=1" (expected array, got str)'),
    (MANIFEST, {"captures": {}}, "$.captures is {} (expected array, got object)"),
    (MANIFEST, {"captures": [{"collector": "x", "path": "x", "status": "odd"}]},
     '$.captures[0].status is "odd" (expected "failed" or "ok" or "skipped")'),
    (MANIFEST, {"captures": [{"status": "ok"}]}, "$.captures[0].collector is missing"),
    (MANIFEST, {"captures": [STORED, {**STORED, "sha256": None}]},
     "$.captures[1].sha256 is missing"),
    (MANIFEST, {"captures": [{**STORED, "bytes": None}]}, "$.captures[0].bytes is missing"),
    (MANIFEST, {"metric": [{"name": "x", "unit": "s", "better": "x", "regex": "x"}]},
     '$.metric[0].better is "x" (expected "higher" or "lower")'),
    (MANIFEST, {"source": {"commit": "v6.12"}},
     '$.source.commit is "v6.12" (expected str matching'),
    (MANIFEST, {"source": {"commit": f"{COMMIT}\n"}}, "$.source.commit is "),
    (MANIFEST, {"source": {}}, "$.source.commit is missing"),
    (MANIFEST, {"source": {"commit": COMMIT, "subject": "a\nb"}},
     '$.source: invalid "subject" (expected one line of printable text)'),
    (MANIFEST, {"source": {"commit": COMMIT, "links": ["ok", "a\u202eb"]}},
     '$.source: invalid "links"'),
    (MANIFEST, {"source": {"commit": COMMIT, "tree": "x" * 501}}, "$.source.tree is"),
    (MANIFEST, {"source": {"commit": COMMIT, "patches": ["x"] * 101}}, "$.source.patches is"),
    (MANIFEST, {"machine": "a b"}, '$.machine is "a b" (expected str matching'),
    (MANIFEST, {"recordings": {}}, "$.recordings is {} (expected array, got object)"),
    (MANIFEST, {"recordings": [{"command": "x"}]}, "$.recordings[0].command is"),
    (MANIFEST, {"recordings": [{"command": [], "minutes": -1}]}, "$.recordings[0].minutes is -1"),
    (MANIFEST, {"recordings": [{"command": [], "programs": [{"name": "x", "sha256": "0"}]}]},
     "$.recordings[0].programs[0].sha256 is"),
    (RUN, {"kind": "dirty"}, '$.kind is "dirty" (expected "clean" or "instrumented")'),
    (RUN, {"command": ["a", 1]}, "$.command[1] is 1 (expected str, got int)"),
    (RUN, {"wall_s": "1 s"}, '$.wall_s is "1 s" (expected float | null, got str)'),
    (RUN, {"wall_s": -0.5}, "$.wall_s is -0.5 (expected float >= 0.0)"),
    (RUN, {"point": {"groups": 4}}, "$.point[...] is invalid (expected str, got int)"),
    (RUN, {"point_key": "groups=9"}, '$: "point_key" does not match "point" (expected "")'),
    (RUN, {"exit_status": 1.5}, "$.exit_status is 1.5 (expected int | null, got float)"),
    (RUN, {"rusage": {"utime_s": None}}, "$.rusage[...] is invalid (expected float, got null)"),
    (RUN, {"captures": [{**STORED, "sha256": None}]}, "$.captures[0].sha256 is missing"),
    (RUN, {"sequential": 3}, "$.sequential is 3 (expected object | null, got int)"),
    (RUN, {"discarded": 3}, "$.discarded is 3 (expected str)"),
    (RUN, {"service": "scx_lavd"}, '$.service is "scx_lavd" (expected object | null, got str)'),
    (RUN, {"service": {"command": "x"}}, "$.service.program is missing"),
    (RUN, {"service": {"command": "x", "program": "x", "sha256": "0"}}, "$.service.sha256 is"),
    (RUN, {"run": 3}, "describes another run (boots/0/runs/003)"),
    (HOST, {"kernel": "6.12"}, 'kernel: $ is "6.12" (expected object, got str)'),
]  # fmt: skip


@pytest.mark.parametrize("case", WRONG_KEYS, ids=lambda case: case[2])
def test_a_value_of_a_wrong_type_is_refused_with_its_key(
    case: tuple[str, dict[str, Any], str],
    tmp_path: Path,
    make_members: MakeMembers,
    make_tar: MakeTar,
) -> None:
    name, changes, problem = case
    members = make_members(manifest={} if name == MANIFEST else None)
    members[name] = changed(members[name], **changes)
    path = make_tar(tmp_path / "b.tar", members.items())
    with pytest.raises(BundleError, match=re.escape(problem)) as caught:
        open_bundle(path)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    "key", ["boot", "workload", "point", "kind", "warmup", "order", "captures"]
)
def test_a_run_json_without_a_key_that_it_needs_is_refused(
    key: str, tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
) -> None:
    members = make_members(manifest=None)
    members[RUN] = without(members[RUN], key)
    with pytest.raises(BundleError, match=f"{key} is missing"):
        open_bundle(make_tar(tmp_path / "b.tar", members.items()))


def test_lone_surrogates_become_replacement_characters(
    tmp_path: Path, make_bundle: MakeBundle
) -> None:
    bundle = open_bundle(make_bundle(tmp_path / "b.tar", label="a\udcffb"))
    assert bundle.label == "a\N{REPLACEMENT CHARACTER}b"


def test_a_record_of_more_bytes_than_its_limit_is_refused(
    tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
) -> None:
    members = make_members()
    members[HOST] = b'{"cpu": {}}'.ljust((8 << 20) + 1)
    del members[MANIFEST]
    with pytest.raises(
        BundleError, match=r"host.json has 8388609 bytes \(expected at most 8388608"
    ):
        open_bundle(make_tar(tmp_path / "b.tar", members.items()))


@pytest.mark.parametrize(
    ("key", "value", "most"),
    [
        ("points", [""] * 100_001, 100_000),
        ("treatment", ["sched.hz"] * 1001, 1000),
        (
            "metric",
            [{"name": "n", "unit": "s", "better": "lower", "regex": "x"}] * 101,
            100,
        ),
    ],
)
def test_lists_that_nobody_gave_are_refused(
    key: str, value: object, most: int, make_members: MakeMembers
) -> None:
    content = changed(make_members(manifest={})[MANIFEST], **{key: value})
    with pytest.raises(
        BundleError, match=rf"^m: \$\.{key} is .* \(expected array of length <= {most}\)"
    ):
        parse_manifest(content, "m")


@pytest.mark.parametrize(
    ("key", "value", "problem"),
    [
        ("wall_s", "1e300", r"\$.wall_s is 1e\+300 \(expected float <= 1000000000.0\)"),
        ("wall_s", "-1", r"\$.wall_s is -1 \(expected float >= 0.0\)"),
        ("wall_s", "1e400", "invalid JSON: number too large"),
        ("wall_s", "Infinity", "invalid JSON: invalid number Infinity"),
        ("start", '"0000-99-99"', r'\$.start is "0000-99-99" \(expected a date and time, e.g. '),
        ("start", '""', r'\$.start is "" \(expected a date and time, e.g. '),
    ],
)
def test_times_that_no_clock_shows_are_refused(
    key: str, value: str, problem: str, make_members: MakeMembers
) -> None:
    content = json.loads(make_members(runs=1)["boots/0/runs/000/run.json"])
    text = json.dumps({**content, key: "@"}).replace('"@"', value)
    with pytest.raises(BundleError, match=f"^r: {problem}"):
        parse_run(text.encode(), "r")


def test_a_host_json_of_more_values_than_any_machine_has_is_refused(
    tmp_path: Path, make_members: MakeMembers, make_tar: MakeTar
) -> None:
    members = make_members(manifest=None)
    members[HOST] = json.dumps({"cpu": {str(key): key for key in range(10_001)}}).encode()
    with pytest.raises(
        BundleError,
        match="too many values: 10001 .expected at most 10000.; record the bundle again",
    ):
        open_bundle(make_tar(tmp_path / "b.tar", members.items()))


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.property
@given(data=st.data())
def test_any_value_of_any_key_is_read_or_refused(
    data: st.DataObject,
    tmp_path_factory: pytest.TempPathFactory,
    make_members: MakeMembers,
    make_tar: MakeTar,
) -> None:
    name = data.draw(st.sampled_from([MANIFEST, RUN, HOST]))
    members = make_members(runs=1, manifest={} if name == MANIFEST else None)
    key = data.draw(st.sampled_from(sorted(json.loads(members[name]))))
    members[name] = changed(members[name], **{key: data.draw(JSON_VALUES)})
    path = make_tar(tmp_path_factory.getbasetemp() / "any.tar", members.items())
    with contextlib.suppress(BundleError):
        open_bundle(path)


# Four threads that read a run.json at once, in a process that has read none.
AT_ONCE = """
import sys, threading
from schedperf.inputs.bundle.manifest import parse_run
sys.setswitchinterval(1e-6)
content = open(sys.argv[1], "rb").read()
barrier = threading.Barrier(4)
def read():
    barrier.wait()
    parse_run(content, "run.json")
threads = [threading.Thread(target=read) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


def test_threads_may_read_the_first_bundles(make_members: MakeMembers, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_bytes(make_members()[RUN])
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", AT_ONCE, str(path)], check=False)
        assert done.returncode == 0


@pytest.mark.parametrize(
    "factors",
    [
        ["kernel"],
        {"kernel": 1},
        {"kernel": ""},
        {"kernel": "a\x1b[2J"},
        {"kernel": "x" * 1_000_000},
        {"a b": "on"},
        {f"f{number}": "on" for number in range(17)},
    ],
)
def test_factors_are_short_printable_names(make_members: MakeMembers, factors: object) -> None:
    content = changed(make_members()[RUN], factors=factors)
    with pytest.raises(BundleError) as refused:
        parse_run(content, "run.json")
    assert "factors" in str(refused.value)
    assert len(str(refused.value)) < 300
    assert str(refused.value).isprintable()
    assert parse_run(changed(content, factors={"kernel": "6.1-rc1+"}), "run.json").factors
