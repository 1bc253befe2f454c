# SPDX-License-Identifier: GPL-2.0-or-later
"""What ``doctor --boot`` asks hooks, and what it says of their answers."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf_collectors.boots.call import Call, Called, call_here
from schedperf_collectors.boots.doctor import format_text, to_json
from schedperf_collectors.boots.examine import Problem, examine
from schedperf_collectors.boots.proof import FAILED, PROVED, Machine, conclude, prepare
from schedperf_collectors.machine.errors import RecordError

BEFORE = Machine("1111", "6.1.0-50")
AFTER = Machine("2222", "6.1.0-50")

# A boot loader whose state is files of its folder; a boot is simulated by the test.
LOADER = """\
cd "$(dirname "$0")"
case $1 in
    check)
        echo "boot entry $2"
        if [ "$2" = bad ]; then
            printf 'no entry; add one\\nwarm\\n' >&2
            exit 1
        fi
        ;;
    arm) echo "entry-$2" >armed ;;
    armed) cat armed 2>/dev/null || : ;;
    disarm) rm -f armed ;;
    default) cat default ;;
esac
"""


@pytest.fixture
def loader(tmp_path: Path) -> str:
    path = tmp_path / "loader"
    path.write_text(f"#!/bin/sh\n{LOADER}")
    path.chmod(0o755)
    (tmp_path / "default").write_text("6.1.0-50\n")
    return f"command:{path}"


def test_kernels_are_checked_each(loader: str) -> None:
    examination = examine(call_here, loader, ["6.1.0-47", "bad", "6.1.0-47"], "6.1.0-50")
    assert [kernel.release for kernel in examination.kernels] == ["6.1.0-47", "bad"]
    good, bad = examination.kernels
    assert (good.passed, good.problems) == (("boot entry 6.1.0-47",), ())
    assert bad.problems == (Problem("no entry", "add one"), Problem("warm", ""))
    assert (examination.default, examination.armed, examination.problems) == ("6.1.0-50", None, 2)
    text = format_text(examination, None, BEFORE)
    assert "  ok      boot entry 6.1.0-47\n" in text
    assert "  failed  no entry; fix: add one\n  failed  warm\n" in text
    assert json.loads(to_json(examination, None))["kernels"][1]["problems"] == [
        {"text": "no entry", "remedy": "add one"},
        {"text": "warm", "remedy": ""},
    ]


def test_the_default_kernel_is_checked_or_the_running_one(loader: str, tmp_path: Path) -> None:
    assert examine(call_here, loader, [], "6.1.0-9").kernels[0].release == "6.1.0-50"
    for text in ("", "a b\n", "../x\n"):
        (tmp_path / "default").write_text(text)
        examination = examine(call_here, loader, [], "6.1.0-9")
        assert (examination.default, examination.kernels[0].release) == (None, "6.1.0-9")


@pytest.mark.parametrize("release", ["-x", "../..", "", "a b", "x" * 65, "a\n"])
def test_releases_are_checked_before_a_hook_is_called(release: str) -> None:
    def call(hook: str, arguments: Sequence[str]) -> Called:
        pytest.fail(f"{hook} {arguments}")

    with pytest.raises(RecordError, match="^--kernel: invalid release"):
        examine(call, "grub-reboot", [release], "6.1")


@pytest.mark.parametrize(
    ("called", "problem"),
    [
        (Called(None, "", ""), Problem("the hook was killed after 60 s", "mend the hook")),
        (Called(1, "", ""), Problem("the hook failed (exit status 1)", "mend the hook")),
        (Called(127, "", ""), Problem("the hook failed (exit status 127)", "mend the hook")),
        (Called(-9, "", ""), Problem("the hook failed (exit status -9)", "mend the hook")),
        (
            Called(75, "", ""),
            Problem("the hook cannot check now (exit status 75)", "try again later"),
        ),
        (Called(1, "", "\x1b[2Jx; y; z\n\n"), Problem("[2Jx", "y; z")),
    ],
)
def test_hooks_that_break_their_contract(called: Called, problem: Problem) -> None:
    examination = examine(lambda *_: called, "command:/x", ["6.1"], "6.1")
    assert examination.kernels[0].problems == (problem,)


def answers(**by_hook: Called) -> object:
    def call(hook: str, arguments: Sequence[str]) -> Called:
        answer = by_hook[hook.replace("-", "_")]
        if arguments[0] == "check" and answer.status == 0 and answer.stderr:
            return Called(1, "", answer.stderr)
        return answer

    return call


def test_auto_takes_the_first_hook_that_passes() -> None:
    applies, refused = Called(0, "", ""), Called(1, "", "no EFI; x\n")
    fails = Called(0, "", "on lvm; move it\n")
    call = answers(grub_reboot=fails, bootctl=refused, efibootmgr=applies)
    examination = examine(call, "auto", ["6.1"], "6.1")  # type: ignore[arg-type]
    assert examination.hook == "efibootmgr"
    assert examination.rejected == (("grub-reboot", "1 problem"), ("bootctl", "no EFI"))
    call = answers(grub_reboot=fails, bootctl=refused, efibootmgr=refused)
    examination = examine(call, "auto", ["6.1"], "6.1")  # type: ignore[arg-type]
    assert (examination.hook, examination.problems) == ("grub-reboot", 1)
    call = answers(grub_reboot=refused, bootctl=refused, efibootmgr=refused)
    with pytest.raises(RecordError, match=r"no boot loader can be used \(grub-reboot: no EFI; "):
        examine(call, "auto", ["6.1"], "6.1")  # type: ignore[arg-type]


def boot(tmp_path: Path) -> None:
    """Consume the entry, as a boot loader does."""
    (tmp_path / "armed").unlink()


def test_an_entry_that_a_boot_consumes_is_proved(loader: str, tmp_path: Path) -> None:
    file = tmp_path / "var" / "proof.json"
    assert conclude(call_here, BEFORE, file) is None
    proof = prepare(call_here, loader, "6.1.0-50", BEFORE, file)
    assert (proof.entry, proof.default) == ("entry-6.1.0-50", "6.1.0-50")
    assert conclude(call_here, BEFORE, file) == proof
    boot(tmp_path)
    concluded = conclude(call_here, AFTER, file)
    assert concluded is not None
    assert (concluded.state, concluded.problem()) == (PROVED, None)
    # What others set later does not matter.
    call_here(loader, ["arm", "other"])
    assert conclude(call_here, Machine("3333", "x"), file) == concluded
    assert [path.name for path in file.parent.iterdir()] == ["proof.json"]


def test_an_entry_that_stays_is_cancelled(loader: str, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    prepare(call_here, loader, "6.1.0-50", BEFORE, file)
    concluded = conclude(call_here, AFTER, file)
    assert concluded is not None
    assert concluded.state == FAILED
    assert concluded.text == (
        "the boot did not consume the one-shot entry entry-6.1.0-50 (it was cancelled now)"
    )
    assert not (tmp_path / "armed").exists()


def test_a_boot_of_another_kernel_or_default(loader: str, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    prepare(call_here, loader, "6.1.0-47", BEFORE, file)
    boot(tmp_path)
    concluded = conclude(call_here, AFTER, file)
    assert concluded is not None
    assert concluded.text == "6.1.0-50 booted, expected 6.1.0-47"
    prepare(call_here, loader, "6.1.0-50", AFTER, file)
    boot(tmp_path)
    (tmp_path / "default").write_text("6.1.0-47\n")
    concluded = conclude(call_here, BEFORE, file)
    assert concluded is not None
    assert concluded.text == "the boot changed the default kernel from 6.1.0-50 to 6.1.0-47"


def test_a_second_entry_is_not_set(loader: str, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    prepare(call_here, loader, "6.1.0-50", BEFORE, file)
    with pytest.raises(RecordError, match="already set .entry-6.1.0-50.; reboot"):
        prepare(call_here, loader, "6.1.0-47", BEFORE, file)


def fails_armed(call_now: Call, status: int | None) -> Call:
    """Return a call of the loader whose ``armed`` fails."""

    def call(hook: str, arguments: Sequence[str]) -> Called:
        if arguments[0] == "armed":
            return Called(status, "", "permission denied\n")
        return call_now(hook, arguments)

    return call


@pytest.mark.parametrize("status", [1, 75, None])
def test_an_entry_that_cannot_be_read_is_not_none(
    loader: str, tmp_path: Path, status: int | None
) -> None:
    file = tmp_path / "proof.json"
    broken = fails_armed(call_here, status)
    kernel, bad = examine(broken, loader, ["6.1.0-47", "bad"], "6.1.0-50").kernels
    assert ["could not read whether" in problem.text for problem in kernel.problems] == [True]
    assert [problem.text for problem in bad.problems] == ["no entry", "warm"]
    with pytest.raises(RecordError, match="could not read whether a one-shot entry is set"):
        prepare(broken, loader, "6.1.0-50", BEFORE, file)
    assert not (tmp_path / "armed").exists()
    assert not file.exists()
    prepare(call_here, loader, "6.1.0-50", BEFORE, file)
    boot(tmp_path)
    concluded = conclude(broken, AFTER, file)
    assert concluded is not None
    assert concluded.state == FAILED
    # The boot is judged when the hook answers again.
    concluded = conclude(call_here, AFTER, file)
    assert concluded is not None
    assert concluded.state == PROVED


RECORD = {
    "schema": "schedperf/boot-proof/1", "state": "armed", "hook": "command:/x", "release": "6.1",
    "entry": None, "default": None, "boot_id": "1111", "text": "", "remedy": "",
}  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        "\xff",
        '{"schema": "schedperf/boot-proof/1"}',
        json.dumps({**RECORD, "hook": 5}),
        json.dumps({**RECORD, "hook": "lilo", "boot_id": "before"}),
        json.dumps({**RECORD, "state": "x"}),
        json.dumps({**RECORD, "entry": "\x1b[2J"}),
        json.dumps({**RECORD, "release": None}),
        json.dumps({**RECORD, "schema": "schedperf/boot-proof/2"}),
    ],
)
def test_a_damaged_file_is_no_proof(text: str, tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    file.write_bytes(text.encode("latin-1"))
    assert conclude(call_here, BEFORE, file) is None


def test_a_proof_of_a_hook_that_is_gone(tmp_path: Path) -> None:
    file = tmp_path / "proof.json"
    file.write_text(json.dumps({**RECORD, "hook": "command:/gone"}))
    concluded = conclude(call_here, AFTER, file)
    assert concluded is not None
    assert concluded.problem() == Problem(
        "--boot command:/gone: no such file or directory (expected an executable file)",
        "run `schedperf doctor --boot HOOK --prove` with another hook",
    )
