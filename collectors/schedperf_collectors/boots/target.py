# SPDX-License-Identifier: GPL-2.0-or-later
"""The machine under test: this one, or another by ssh."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import schedperf_collectors
from schedperf_collectors.boots import agent
from schedperf_collectors.boots.agent import BUNDLES, CLAIM, HOME, RECORDER, VERB
from schedperf_collectors.boots.call import COMMAND, LIMIT_S, Called, call_here
from schedperf_collectors.boots.shell import Ssh, Unreachable
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.recorder.bundle import write_durably

# Bundles and the recorder have some MB; a slow line takes its time.
_COPY_LIMIT_S = 1800.0
_PACKED = (".py", ".c", ".h", ".o", ".sh")
_ARCHIVE = HOME / "recorder.zip"
# Prints the checksum of what arrived, after it is unpacked; or the claim of another recording,
# which needs its recorder.
_INSTALL = """\
set -e
if [ -e "$4" ]; then
    cat "$4"
    exit 0
fi
umask 022
mkdir -p "$1"
cat > "$2"
rm -rf "$3"
python3 -m zipfile -e "$2" "$3" >&2
sync
sha256sum < "$2" | cut -c1-64
"""


class Here:
    """This machine, which boots itself (``--resume``)."""

    name = "this machine"
    is_here = True

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        """Do one thing of :mod:`agent`.

        :raises RecordError: it failed
        """
        return agent.act(verb, arguments, source)

    def call(self, hook: str, arguments: Sequence[str], limit_s: float = LIMIT_S) -> Called:
        """Call a boot hook."""
        return call_here(hook, arguments, limit_s)

    def install(self, recorder: bytes) -> None:
        """Store the recorder where it survives boots; this machine is claimed.

        :raises RecordError: it cannot be written
        """
        try:
            HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_durably(_ARCHIVE, recorder)
            # A directory, because Python caches compiled modules there; it starts faster.
            shutil.rmtree(RECORDER, ignore_errors=True)
            with zipfile.ZipFile(_ARCHIVE) as archive:
                archive.extractall(RECORDER)
        except OSError as error:
            where = error.filename or HOME
            raise RecordError(f"{where}: {explain(error)}; see `df` and the file's mode") from error
        os.sync()

    def uninstall(self) -> None:
        """Remove the recorder; this machine is still claimed."""
        shutil.rmtree(RECORDER, ignore_errors=True)
        with contextlib.suppress(OSError):
            _ARCHIVE.unlink(missing_ok=True)

    def fetch(self, name: str, path: Path) -> None:
        """Copy a bundle to its path, completely or not at all."""
        with _replacing(path) as new:
            shutil.copyfile(BUNDLES / f"{name}.tar", new)


class There:
    """Another machine, by ssh.

    :param ssh: how it is reached
    """

    is_here = False

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh
        self._sudo: list[str] | None = None
        self.name = ssh.host
        # For hooks that run on this machine.
        os.environ["SCHEDPERF_TARGET"] = ssh.host

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        """Do one thing of :mod:`agent` there.

        :raises Unreachable: there is no answer
        :raises RecordError: it failed
        """
        output = self._run(["python3", "-I", str(RECORDER), VERB, verb, *arguments], source)
        try:
            result: Any = json.loads(output.stdout)
        except (ValueError, RecursionError):
            result = None
        if not _is_answer(verb, result):
            raise RecordError(
                f"{self.name}: the recorder there failed ({output.last_line() or 'no result'}); "
                "check that python3 is 3.9 or newer there"
            )
        if "error" in result:
            status = result.get("status")
            raise RecordError(f"{self.name}: {result['error']}", status if status == 1 else 2)
        answer: Mapping[str, Any] = result
        return answer

    def call(self, hook: str, arguments: Sequence[str], limit_s: float = LIMIT_S) -> Called:
        """Call a boot hook: a built-in one there, a command here."""
        if hook.startswith(COMMAND):
            return call_here(hook, arguments, limit_s)
        result = self.act("hook", f"{limit_s}", hook, *arguments)
        return Called(result["status"], str(result["stdout"]), str(result["stderr"]))

    def install(self, recorder: bytes) -> None:
        """Copy the recorder there; check root and Python first.

        :raises RecordError: that failed, or another recording uses the machine
        """
        output = self._run(
            ["sh", "-c", _INSTALL, "sh", *map(str, (HOME, _ARCHIVE, RECORDER, CLAIM))], recorder
        )
        if output.stdout.lstrip().startswith(b"{"):
            agent.check_claim(agent.parse_object(output.stdout), "")
        digest = hashlib.sha256(recorder).hexdigest()
        if output.stdout.decode(errors="replace").strip() != digest:
            raise RecordError(
                f"{self.name}: {RECORDER}: could not be copied ({output.last_line()}); check free "
                "space and python3 there"
            )

    def fetch(self, name: str, path: Path) -> None:
        """Copy a bundle here, completely or not at all.

        :raises Unreachable: the connection broke, or other bytes arrived
        """
        expected = self.act("list", name)[name]
        if expected is None:
            raise RecordError(f"{self.name}: {BUNDLES}/{name}.tar: no such file; record again", 1)
        with _replacing(path) as new:
            with new.open("wb") as file:
                words = [*self._as_root(), "cat", str(BUNDLES / f"{name}.tar")]
                self._ssh.run(words, b"", _COPY_LIMIT_S, file)
            if agent.describe_file(new) != expected:
                raise Unreachable(f"{path}: incomplete copy")

    def _run(self, command: Sequence[str], source: bytes) -> Any:
        limit_s = _COPY_LIMIT_S if len(source) > (1 << 16) else 2 * LIMIT_S
        return self._ssh.run([*self._as_root(), *command], source, limit_s)

    def _as_root(self) -> list[str]:
        if self._sudo is None:
            test = 'if [ "$(id -u)" = 0 ]; then echo root; else sudo -n true && echo sudo; fi'
            output = self._ssh.run(["sh", "-c", test])
            said = output.stdout.decode(errors="replace").split()
            if said[-1:] not in (["root"], ["sudo"]):
                raise RecordError(
                    f"--on ssh:{self.name}: no root access (expected root, or sudo without a "
                    f"password); use ssh:root@{self.name.rpartition('@')[2]}"
                )
            self._sudo = [] if said[-1] == "root" else ["sudo", "-n"]
        return self._sudo


def _is_answer(verb: str, result: Any) -> bool:
    """Return whether this is the result of a verb, or an error."""
    return isinstance(result, dict) and (verb != "look" or "error" in result or _is_look(result))


def _is_look(result: Mapping[str, Any]) -> bool:
    """Return whether a result has what the engine reads of a machine's state."""
    job = result.get("job")
    texts = [result.get(name) for name in ("boot_id", "release", "version")]
    return (
        all(isinstance(text, str) and text.isprintable() for text in texts)
        and _is_build_id(result.get("build_id"))
        and isinstance(job, dict)
        and {"id", "state", "status", "text"} <= set(job)
        and isinstance(job["status"], (int, type(None)))
        and {"is_held", "claim"} <= set(result)
    )


def _is_build_id(value: Any) -> bool:
    return value is None or (isinstance(value, str) and value.isprintable())


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a new file, which becomes the path when it is complete."""
    new = path.with_name(f"{path.name}.copy")
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())
        new.replace(path)
    except OSError as error:
        raise RecordError(f"{path}: {explain(error)}; free space and continue") from error
    finally:
        new.unlink(missing_ok=True)


def own_archive() -> bytes:
    """Return the recorder as a zip file: this one, or one made of the installed sources."""
    folder = Path(schedperf_collectors.__file__).parent
    if not folder.is_dir():
        return folder.parent.read_bytes()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder / "__main__.py", "__main__.py")
        for path in sorted(folder.rglob("*")):
            if path.is_file() and path.suffix in _PACKED:
                archive.write(path, str(path.relative_to(folder.parent)))
    return b"#!" + sys.executable.encode() + b"\n" + buffer.getvalue()
