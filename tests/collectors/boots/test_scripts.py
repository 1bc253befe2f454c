# SPDX-License-Identifier: GPL-2.0-or-later
"""The built-in hooks are complete shell scripts, here and in the packed recorder."""

import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from schedperf.commands._zipapp import build_zipapp
from schedperf_collectors.boots.scripts import BUILT_IN, COLD, script


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("shell", [["dash"], ["bash", "--posix"], ["busybox", "sh"]])
def test_each_shell_reads_them(name: str, shell: list[str]) -> None:
    if shutil.which(shell[0]) is None:
        pytest.skip(f"needs {shell[0]}")
    done = subprocess.run([*shell, "-s", "--", "dance"], input=script(name), capture_output=True)
    assert done.returncode == 2
    assert done.stderr.decode() == (
        "invalid verb 'dance' (expected check, arm, armed, disarm, default or reboot)\n"
    )


@pytest.mark.parametrize("name", BUILT_IN)
def test_shellcheck_finds_nothing(name: str, tmp_path: Path) -> None:
    if shutil.which("shellcheck") is None:
        pytest.skip("needs shellcheck")
    path = tmp_path / f"{name}.sh"
    path.write_bytes(script(name))
    done = subprocess.run(["shellcheck", "-s", "sh", path], capture_output=True, text=True)
    assert done.stdout == ""


def test_no_other_name_is_read() -> None:
    for name in ("common", "../scripts", ""):
        with pytest.raises(KeyError):
            script(name)
    assert set(COLD) < set(BUILT_IN)


def test_the_packed_recorder_has_them(tmp_path: Path) -> None:
    data = build_zipapp()
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        packed = [name for name in archive.namelist() if name.endswith(".sh")]
    assert sorted(packed) == sorted(
        f"schedperf_collectors/boots/hooks/{name}.sh" for name in ("common", *BUILT_IN)
    )
    path = tmp_path / "recorder.pyz"
    path.write_bytes(data)
    program = (
        f"import sys; sys.path.insert(0, {str(path)!r}); "
        "from schedperf_collectors.boots.scripts import script; "
        "sys.stdout.buffer.write(script('bootctl'))"
    )
    done = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=True)
    assert done.stdout == script("bootctl")
