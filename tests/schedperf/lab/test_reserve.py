# SPDX-License-Identifier: GPL-2.0-or-later
"""Reservations of machines: one holder at a time; a killed run is continued by the next one."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from schedperf.lab import reserve as module
from schedperf.lab.reserve import Busy, check, release, reserve, reserved
from schedperf.model.errors import InputError

# The exit statuses and messages of labgrid-client 26.0.1; the last test runs the real one.
_CLIENT = """\
#!/bin/sh
me=$(hostname)/${LG_USERNAME:-me}
echo "$*" >>"$PLACES/calls"
holder=$(cat "$PLACES/$2" 2>/dev/null) || {
    echo "labgrid-client: Error: place pattern $2 matches nothing" >&2; exit 1; }
case $3 in
acquire)
    [ "$holder" != "$me" ] || {
        echo "labgrid-client: Error: You have already acquired place $2." >&2; exit 1; }
    [ -z "$holder" ] || {
        echo "labgrid-client: Error: Place $2 is already acquired by $holder." >&2; exit 1; }
    echo "$me" >"$PLACES/$2"; echo "acquired place $2" ;;
release)
    [ -n "$holder" ] || {
        echo "labgrid-client: Error: place $2 is not acquired" >&2; exit 1; }
    [ "$holder" = "$me" ] || {
        echo "labgrid-client: Error: place $2 is acquired by a different user ($holder)" >&2
        exit 1; }
    : >"$PLACES/$2"; echo "released place $2" ;;
esac
"""
_HOOK = """\
#!/bin/sh
echo "$*" >>"$0.calls"
[ ! -e "$0.status" ] || { echo "used by kim"; exit "$(cat "$0.status")"; }
"""


class Places:
    """Places of labgrid, and who holds them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def holder(self, place: str = "lab1") -> str:
        """Return who holds a place; "" for nobody."""
        return (self.folder / place).read_text().strip()

    def set(self, holder: str, place: str = "lab1") -> None:
        """Let somebody hold a place."""
        (self.folder / place).write_text(holder)


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    """Return free places, and put a client of labgrid into PATH."""
    folder = tmp_path / "places"
    folder.mkdir()
    client = tmp_path / "bin" / "labgrid-client"
    client.parent.mkdir()
    client.write_text(_CLIENT)
    client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PLACES", str(folder))
    monkeypatch.delenv("LG_USERNAME", raising=False)
    made = Places(folder)
    made.set("")
    return made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the path of a reservation."""
    return tmp_path / "reserved.json"


def test_a_place_is_held_during_the_block(places: Places, file: Path) -> None:
    with reserved("labgrid:lab1", "2x48", file):
        assert places.holder().endswith("/me")
        assert file.exists()
    assert places.holder() == ""
    assert not file.exists()
    with reserved(None, "2x48", file):
        assert places.holder() == ""


def test_a_run_that_was_killed_is_continued(places: Places, file: Path) -> None:
    reserve("labgrid:lab1", "2x48", file)
    # Another run of the same owner.
    reserve("labgrid:lab1", "2x48", file)
    assert places.holder().endswith("/me")
    # It was killed before it reserved.
    places.set("")
    reserve("labgrid:lab1", "2x48", file)
    assert places.holder().endswith("/me")
    # Another way: the first place is given back.
    places.set("", "lab2")
    reserve("labgrid:lab2", "2x48", file)
    assert (places.holder(), places.holder("lab2")[-3:]) == ("", "/me")
    reserve(None, "2x48", file)
    assert places.holder("lab2") == ""
    release(file)


def test_what_others_hold_is_busy(
    places: Places, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places.set("desk/kim")
    with pytest.raises(Busy, match="2x48: reserve by labgrid:lab1: busy: .* by desk/kim") as busy:
        reserve("labgrid:lab1", "2x48", file)
    assert busy.value.exit_status == 75
    assert str(busy.value).isprintable()
    assert not file.exists()
    # The same user holds it by hand.
    places.set(f"{socket.gethostname()}/me")
    with pytest.raises(Busy, match="You have already acquired"):
        reserve("labgrid:lab1", "2x48", file)
    assert places.holder().endswith("/me")
    places.set("desk/kim")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        # The end of a process group is awaited, too.
        if seconds >= 1.0:
            waits.append(seconds)
            places.set("")

    monkeypatch.setattr("schedperf.lab.reserve.time.sleep", wait)
    reserve("labgrid:lab1", "2x48", file, wait_s=3600.0)
    assert waits == [30.0]


def test_what_a_person_took_is_not_released(places: Places, file: Path) -> None:
    for holder in ("desk/kim", ""):
        places.set("")
        reserve("labgrid:lab1", "2x48", file)
        places.set(holder)
        release(file)
        assert places.holder() == holder
        assert not file.exists()


def test_a_program_reserves_and_releases(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = tmp_path / "hook"
    hook.write_text(_HOOK)
    hook.chmod(0o755)
    how = f"command:{hook}"
    check(how)
    with reserved(how, "2x48", file):
        reserve(how, "2x48", file)
    calls = (tmp_path / "hook.calls").read_text().splitlines()
    assert calls == ["reserve 2x48", "reserve 2x48", "release 2x48"]
    (tmp_path / "hook.status").write_text("75")
    with pytest.raises(Busy, match="busy: used by kim; try again later"):
        reserve(how, "2x48", file)
    (tmp_path / "hook.status").write_text("3")
    with pytest.raises(InputError, match="failed with exit status 3: used by kim"):
        reserve(how, "2x48", file)
    assert not file.exists()
    # What cannot be released is kept for another try.
    (tmp_path / "hook.status").unlink()
    reserve(how, "2x48", file)
    (tmp_path / "hook.status").write_text("75")
    with pytest.raises(Busy):
        release(file)
    assert file.exists()
    hook.write_text("#!/bin/sh\nsleep 60\n")
    monkeypatch.setattr(module, "LIMIT_S", 0.2)
    with pytest.raises(Busy, match="did not end within 0 s"):
        release(file)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("", "reserve: invalid value '' (expected labgrid:PLACE or command:PATH"),
        ("labgrid:", "reserve: invalid value 'labgrid:'"),
        ("labgrid:-x", "reserve: invalid value 'labgrid:-x'"),
        ("labgrid:a\x1b", "reserve: invalid value"),
        ("lab1", "reserve: invalid value 'lab1'"),
        ("command:", "reserve: invalid value 'command:'"),
        ("command:/nonexistent", "reserve: /nonexistent: no such program; give the path"),
        ("command:a\0b", "reserve: "),
        ("labgrid:none", "2x48: reserve by labgrid:none: labgrid-client: Error: place pattern"),
    ],
)
def test_what_cannot_be_reserved_is_one_line(
    how: str, said: str, places: Places, file: Path
) -> None:
    del places
    with pytest.raises(InputError) as refused:
        reserve(how, "2x48", file)
    assert str(refused.value).startswith(said)
    assert str(refused.value).isprintable()
    assert not file.exists()


def test_without_labgrid_the_error_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="labgrid-client: no such program; install it"):
        check("labgrid:lab1")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"how": 1}', b"\xff" * 99, b"x" * 99999])
def test_a_damaged_file_is_one_line(file: Path, content: bytes) -> None:
    file.write_bytes(content)
    with pytest.raises(InputError) as refused:
        release(file)
    assert str(refused.value).startswith(f"{file}: ")
    assert str(refused.value).isprintable()


# The real labgrid, if it is installed: its programs are in PATH, or in the folder $LABGRID_BIN.

_PORT_LIMIT_S = 30.0


@pytest.fixture
def labgrid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Mapping[str, str]]:
    """Run a coordinator and an exporter with the place lab1, on the loopback."""
    path = f"{os.environ.get('LABGRID_BIN', '')}:{os.environ['PATH']}"
    programs = {
        name: shutil.which(f"labgrid-{name}", path=path)
        for name in ("client", "coordinator", "exporter")
    }
    if None in programs.values():
        pytest.skip("needs labgrid (pip install labgrid==26.0.1; LABGRID_BIN=FOLDER)")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("LG_COORDINATOR", address)
    resources = "lab1-group:\n  NetworkService:\n    address: 127.0.0.1\n    username: root\n"
    (tmp_path / "exporter.yaml").write_text(resources)
    commands = (
        [programs["coordinator"], "-l", address],
        [programs["exporter"], "-c", address, "--name", "lab1", "--hostname", "127.0.0.1",
         str(tmp_path / "exporter.yaml")],
    )  # fmt: skip
    started = []
    try:
        for command in commands:
            started.append(
                subprocess.Popen(
                    [str(word) for word in command], cwd=tmp_path, stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                )
            )  # fmt: skip
            _await(lambda: _client("resources").returncode == 0)
        _await(lambda: b"lab1-group" in _client("resources").stdout)
        assert _client("-p", "lab1", "create").returncode == 0
        assert _client("-p", "lab1", "add-match", "lab1/lab1-group/NetworkService").returncode == 0
        yield {"address": address}
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(30)


def _client(*words: str, user: str | None = None) -> subprocess.CompletedProcess[bytes]:
    other = {} if user is None else {"LG_USERNAME": user}
    return subprocess.run(
        ["labgrid-client", *words], capture_output=True, check=False, env={**os.environ, **other}
    )


def _await(is_so: object) -> None:
    until = time.monotonic() + _PORT_LIMIT_S
    while not is_so():  # type: ignore[operator]
        assert time.monotonic() < until
        time.sleep(0.1)


@pytest.mark.system
def test_the_real_labgrid(
    labgrid: Mapping[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert labgrid
    reserve("labgrid:lab1", "2x48", file)
    reserve("labgrid:lab1", "2x48", file)
    assert _client("-p", "lab1", "acquire", user="kim").returncode != 0
    release(file)
    assert _client("-p", "lab1", "acquire", user="kim").returncode == 0
    with pytest.raises(Busy, match="busy: .*/kim"):
        reserve("labgrid:lab1", "2x48", file)
    assert _client("-p", "lab1", "release", user="kim").returncode == 0
    # A person of the same name, who holds it by hand.
    assert _client("-p", "lab1", "acquire").returncode == 0
    with pytest.raises(Busy, match="You have already acquired"):
        reserve("labgrid:lab1", "2x48", file)
    assert _client("-p", "lab1", "release").returncode == 0
    reserve("labgrid:lab1", "2x48", file)
    assert _client("-p", "lab1", "release", "--kick", user="kim").returncode == 0
    assert _client("-p", "lab1", "acquire", user="kim").returncode == 0
    release(file)
    with pytest.raises(InputError, match="matches nothing"):
        reserve("labgrid:other", "2x48", file)
    monkeypatch.setenv("LG_COORDINATOR", "127.0.0.1:1")
    with pytest.raises(Busy, match="connect"):
        reserve("labgrid:lab1", "2x48", file)
