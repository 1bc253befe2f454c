# SPDX-License-Identifier: GPL-2.0-or-later
"""``schedperf completion``: words are completed by real shells."""

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.system

PROMPT = "ready> "
# Start-up files: the prompt, what completion needs, and the line that the help says.
START_UP = {
    "bashrc": f'PS1="{PROMPT}"; eval "$(schedperf completion bash)"\n',
    ".zshrc": f'PS1="{PROMPT}"; autoload -Uz compinit; compinit -u -D\n'
    'eval "$(schedperf completion zsh)"\n',
    "fish/config.fish": "schedperf completion fish | source\n",
}
# Each is typed as far as it says and completed with the tabulator; the shell then writes the line.
TYPED = "schedperf sh\t--ru\treco\t\nfc -ln -1 >line\nexit\n"
LIMIT_S = 60.0


def environment(folder: Path) -> dict[str, str]:
    program = str(Path(sys.executable).parent)
    return {
        "PATH": os.pathsep.join([program, os.environ["PATH"]]),
        "HOME": str(folder),
        "ZDOTDIR": str(folder),
        "XDG_CONFIG_HOME": str(folder),
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
    }


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Return a directory with the start-up files of all shells, and a file to complete."""
    for name, text in START_UP.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "recorded.tar").touch()
    return tmp_path


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}: apt-get install {shell}")


def type_into(command: list[str], folder: Path, text: str) -> str:
    """Type a text at the prompt of a shell on a terminal; return all that the terminal shows."""
    leader, follower = pty.openpty()
    shown = b""
    with subprocess.Popen(
        ["setsid", "--ctty", *command],
        cwd=folder,
        env=environment(folder),
        stdin=follower,
        stdout=follower,
        stderr=follower,
    ) as process:
        os.close(follower)
        deadline = time.monotonic() + LIMIT_S
        left = text.encode()
        while select.select([leader], [], [], max(0.0, deadline - time.monotonic()))[0]:
            try:
                shown += os.read(leader, 65536)
            except OSError:  # Linux answers EIO when the other end is closed.
                break
            if left and PROMPT.encode() in shown:
                os.write(leader, left)
                left = b""
        process.kill()
    os.close(leader)
    return shown.decode()


@pytest.mark.parametrize(
    ("shell", "options"), [("bash", ["--noprofile", "--rcfile", "bashrc", "-i"]), ("zsh", ["-i"])]
)
def test_commands_options_and_files_are_completed(
    shell: str, options: list[str], home: Path
) -> None:
    need(shell)
    shown = type_into([shell, *options], home, TYPED)
    line = home / "line"
    assert line.exists(), shown
    assert line.read_text().strip() == "schedperf show --runs recorded.tar", shown


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("schedperf sh", {"show"}),
        ("schedperf show --ru", {"--runs"}),
        ("schedperf show reco", {"recorded.tar"}),
        # The help calls its value FILE.
        ("schedperf compare --html reco", {"recorded.tar"}),
        ("schedperf compare --format m", {"markdown", "mmtests"}),
        ("schedperf completion ", {"bash", "zsh", "fish"}),
        ("schedperf record --with bpf_pl", {"bpf_placement"}),
        ("schedperf rerun --with bpf_pe", {"bpf_pelt"}),
        ("schedperf record --without acc", {"account"}),
        ("schedperf rerun --without n", set()),
    ],
)
def test_fish_completes(typed: str, words: set[str], home: Path) -> None:
    need("fish")
    done = subprocess.run(
        ["fish", "-c", f"complete -C '{typed}'"],
        cwd=home,
        env=environment(home),
        capture_output=True,
        text=True,
        check=True,
    )
    assert {line.partition("\t")[0] for line in done.stdout.splitlines()} == words


def test_bash_completes_the_last_of_several_collectors(home: Path) -> None:
    """click's script for fish cannot: it splits what is completed at commas."""
    need("bash")
    typed = "schedperf record --with default,bpf_pe\t -o x\nfc -ln -1 >line\nexit\n"
    shown = type_into(["bash", "--noprofile", "--rcfile", "bashrc", "-i"], home, typed)
    line = home / "line"
    assert line.exists(), shown
    assert line.read_text().strip() == "schedperf record --with default,bpf_pelt  -o x"


def test_an_unknown_shell_is_refused_with_those_that_are_known(home: Path) -> None:
    done = subprocess.run(
        ["schedperf", "completion", "tcsh"], env=environment(home), capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.stderr
