# SPDX-License-Identifier: GPL-2.0-or-later
"""Every text of a manifest as an option, a file or nothing: none ends a command or hides a result.

A bundle's words reach the recorder's parser, which prints help and exits for some of them.
"""

import functools
import io
import json
import subprocess
import sys
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from schedperf.cli import main
from schedperf.commands import _left_over, _rerun_plan
from schedperf.inputs.bundle.manifest import Manifest

Place = tuple[str | int, ...]

SOURCE = {
    "commit": "0123456789abcdef0123456789abcdef01234567",
    **{key: key for key in ("subject", "tree", "ref", "author", "committer", "describe")},
    "committed": "2026-11-21T10:00:00Z",
    "links": ["link"],
    "patches": ["patch"],
}
OPTIONS = [
    *("--setup", "base=export TOOK=1", "--setup", "new=export TOOK=2", "--teardown", "new=true"),
    *(
        "--source",
        json.dumps(SOURCE),
        "--machine",
        "epyc-2s",
        "--fact",
        "rack=b12",
        "--vary",
        "sched.autogroup",
    ),
    *("--with", "none", "--warmup", "0", "--timeout", "90", "--point", "group=1", "-n", "6"),
    *("--metric", "elapsed[s,lower]=took ([0-9.]+)"),
]
# Each run takes a little longer than the one before.
COUNT = "n=$(($(cat runs 2>/dev/null) + 1)); echo $n >runs"
WORKLOAD = ["sh", "-c", f"{COUNT}; echo took $TOOK.$((n + 10)) {{group}}"]
# One that ends a parser, and none; the others take as long.
FAST = ["-h", ""]
SLOW = ["--help", "--version", "@/etc/hostname", "x" * 10_000]
REGRESSION, TROUBLE, NOT_COMPARABLE = 1, 2, 4


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Record two bundles, base.tar and a slower new.tar, whose manifests have all that one can."""
    folder = tmp_path_factory.mktemp("recorded")
    command = [sys.executable, "-m", "schedperf", "ab", "-q", "-o", f"{folder}/", *OPTIONS]
    subprocess.run([*command, "--", *WORKLOAD], check=True, cwd=folder)
    return folder


def texts(value: Any, place: Place = ()) -> Iterator[Place]:
    """Yield where a manifest has a text, or nothing where it may have one."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*place, key))
    elif isinstance(value, list):
        for i in different(value, place):
            yield from texts(value[i], (*place, i))
    elif value is None or isinstance(value, str):
        yield place


def different(items: list[Any], place: Place) -> Iterable[int]:
    """Return the indices of items whose texts mean different things."""
    if place == ("captures",):
        return {item["collector"]: i for i, item in enumerate(items)}.values()
    return range(len(items)) if place[0] == "recordings" else range(min(len(items), 1))


def read_members(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        files = ((member.name, tar.extractfile(member)) for member in tar)
        return {name: file.read() for name, file in files if file is not None}


def write(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def put(manifest: Any, place: Place, value: str) -> bytes:
    changed = json.loads(json.dumps(manifest))
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return json.dumps(changed).encode()


@pytest.mark.system
@pytest.mark.xdist_group("hostile_manifest")
@pytest.mark.parametrize(
    "value",
    [*FAST, *(pytest.param(value, marks=pytest.mark.slow) for value in SLOW)],
    ids=lambda value: value[:9] or "empty",
)
def test_no_text_of_a_manifest_ends_a_command_or_hides_the_regression(
    pair: Path, value: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    # Each process describes its machine once, and so does this one.
    describe = functools.cache(_rerun_plan.describe_this_machine)
    monkeypatch.setattr(_rerun_plan, "describe_this_machine", describe)
    # What other recordings left on this machine is not about these bundles.
    monkeypatch.setattr(_left_over, "journal_folder", lambda: None)
    members = read_members(pair / "new.tar")
    manifest = json.loads(members["manifest.json"])
    # Only imports and older recordings have these.
    assert set(Manifest.__struct_fields__) - set(manifest) == {"better", "imported", "rerun"}
    base = str(pair / "base.tar")
    for place in texts(manifest):
        write(tmp_path / "new.tar", {**members, "manifest.json": put(manifest, place, value)})
        for command, statuses in [
            # Another workload, load or metric is another benchmark.
            (["compare", base, "new.tar", "--strict"], {REGRESSION, TROUBLE, NOT_COMPARABLE}),
            (["show", "new.tar"], {0, TROUBLE}),
            (["rerun", base, "new.tar", "--print"], {0, TROUBLE}),
        ]:
            status = main(command)
            err = capsys.readouterr().err
            assert status in statuses, (place, command[0], status, err)
            assert "internal error" not in err, (place, command[0], err)
            assert status != TROUBLE or len(err.splitlines()) == 1, (place, command[0], err)
