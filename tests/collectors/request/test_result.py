# SPDX-License-Identifier: GPL-2.0-or-later
"""Which captures of a run are in the file for the maintainer, and which are left out."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from schedperf.publish.pages.allowed import read_allowed
from schedperf_collectors.redaction.private import PrivateStrings
from schedperf_collectors.request import result
from schedperf_collectors.request.result import Redacted, redact_file

RUN = "boots/0/runs/000"
ACCOUNT = {
    "waiting_s": 1.5,
    "others_cpu_s": 0.2,
    "others": [{"command": "canary17d", "cpu_s": 0.2}],
}
STATE = {"before": {"ops": "lavd"}, "after": {"ops": "lavd"}}


def redacted(folder: Path, files: dict[str, bytes]) -> tuple[Redacted, dict[str, bytes]]:
    """Redact a bundle of one run with these captures; return the members of the result too."""
    run = {"kind": "clean", "boot": 0, "run": 0, "exit_status": 0}
    members = {
        "boots/0/host.json": b"{}", f"{RUN}/run.json": json.dumps(run).encode(),
        f"{RUN}/stdout": b"Time: 1", f"{RUN}/stderr": b"", "manifest.json": b"{}",
        **{f"{RUN}/{name}": content for name, content in files.items()},
    }  # fmt: skip
    path = folder / "bundle.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in members.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    done = redact_file(path, PrivateStrings({"canary17d", "secret-host"}, read_allowed().rules))
    with tarfile.open(fileobj=io.BytesIO(done.content)) as tar:
        found = {each.name: tar.extractfile(each) for each in tar}
        return done, {name: file.read() for name, file in found.items() if file is not None}


def test_other_programs_are_left_out_of_the_account(tmp_path: Path) -> None:
    _, members = redacted(tmp_path, {"account/account.json": json.dumps(ACCOUNT).encode()})
    kept: Any = json.loads(members[f"{RUN}/account/account.json"])
    assert kept == {**ACCOUNT, "others": []}
    run = json.loads(members[f"{RUN}/run.json"])
    assert f"{RUN}/account/account.json" in {each["path"] for each in run["captures"]}


def test_counts_are_kept_as_they_are(tmp_path: Path) -> None:
    files = {
        "schedstat/before": b"version 17\ncpu0 0 0 1 2\n", "schedstat/after": b"version 17\n",
        "schedstat/schedstat.json": b'{"enabled": true}',
        "sched_ext/sched_ext.json": json.dumps(STATE).encode(),
    }  # fmt: skip
    done, members = redacted(tmp_path, files)
    assert {name: members[f"{RUN}/{name}"] for name in files} == files
    assert not done.left_out


@pytest.mark.parametrize(
    "content",
    [b'{"before": {"ops": "secret-host"}}', b'{"ops": "see /home/canary17d/x"}', b"10.1.2.3"],
)
def test_a_capture_with_a_private_string_is_left_out(tmp_path: Path, content: bytes) -> None:
    done, members = redacted(tmp_path, {"sched_ext/sched_ext.json": content})
    assert f"{RUN}/sched_ext/sched_ext.json" not in members
    assert done.left_out == {"captures of sched_ext": 1}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff"])
def test_a_damaged_account_is_left_out(tmp_path: Path, content: bytes) -> None:
    done, members = redacted(tmp_path, {"account/account.json": content})
    assert f"{RUN}/account/account.json" not in members
    assert done.left_out == {"captures of account": 1}


def test_large_and_incomplete_captures_are_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result, "MOST_BYTES", 10)
    files = {"sched_ext/sched_ext.json": b"{}" * 10, "schedstat/before": b"version 17"}
    done, members = redacted(tmp_path, files)
    assert not [name for name in members if "sched" in name]
    assert done.left_out == {"captures of sched_ext": 1}


def test_other_captures_are_never_kept(tmp_path: Path) -> None:
    files = {"perf_profile/perf.data": b"x", "energy/energy.json": b"{}", "service.txt": b"x"}
    _, members = redacted(tmp_path, files)
    assert not [name for name in members if name.endswith(tuple(files))]
