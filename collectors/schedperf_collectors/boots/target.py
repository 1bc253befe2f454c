# SPDX-License-Identifier: GPL-2.0-or-later
"""Access the machine under test: this one, or another one by ssh."""

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
from typing import Any, BinaryIO

import schedperf_collectors
from schedperf_collectors.boots import agent
from schedperf_collectors.boots.agent import BUNDLES, CLAIM, HOME, RECORDER, VERB
from schedperf_collectors.boots.call import COMMAND, LIMIT_S, Called, call_here
from schedperf_collectors.boots.shell import Ssh, Unreachable
from schedperf_collectors.machine.errors import OUT_OF_SPACE, TRY_AGAIN, RecordError, explain
from schedperf_collectors.machine.new_files import copy_all, replacing, write_durably
from schedperf_collectors.recorder.bundle import PRIVATE_MODE

# Time for bundles and the recorder, which have some MB, on a slow line.
_COPY_LIMIT_S = 1800.0
_PACKED = (".py", ".c", ".h", ".o", ".sh")
_ARCHIVE = HOME / "recorder.zip"
# Unpacks the archive and prints its checksum; or prints the claim of another recording, whose
# recorder must not be replaced.
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


# Stores its input under a name, completely or not at all.
_STORE = """\
set -e
umask 077
mkdir -p "$1"
cat > "$1/$2.new"
sync
mv "$1/$2.new" "$1/$2"
"""


class Here:
    """This machine, which boots itself (``--resume``)."""

    name = "this machine"
    is_here = True

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        """Run one verb of :mod:`agent`.

        :raises RecordError: it failed
        """
        return agent.act(verb, arguments, source)

    def call(self, hook: str, arguments: Sequence[str], limit_s: float = LIMIT_S) -> Called:
        """Call a boot hook; see :func:`call_here`."""
        return call_here(hook, arguments, limit_s)

    def install(self, recorder: bytes) -> None:
        """Store the recorder in a directory that survives boots; the machine must be claimed.

        :param recorder: a zip file
        :raises RecordError: it cannot be written
        """
        try:
            HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
            write_durably(_ARCHIVE, recorder)
            # A directory starts faster than a zip file, because Python caches compiled modules
            # there.
            shutil.rmtree(RECORDER, ignore_errors=True)
            with zipfile.ZipFile(_ARCHIVE) as archive:
                archive.extractall(RECORDER)
        except OSError as error:
            where = error.filename or HOME
            raise RecordError(f"{where}: {explain(error)}; see `df` and the file's mode") from error
        os.sync()

    def uninstall(self) -> None:
        """Remove the recorder, but keep the claim of this machine."""
        shutil.rmtree(RECORDER, ignore_errors=True)
        with contextlib.suppress(OSError):
            _ARCHIVE.unlink(missing_ok=True)

    def store(self, name: str, path: Path) -> None:
        """Copy an existing bundle to the bundles of the recording; the machine must be claimed.

        :param name: name of the bundle, without suffix
        :raises RecordError: the bundle cannot be read or copied
        """
        with _reading(path) as bundle:
            BUNDLES.mkdir(parents=True, exist_ok=True)
            with _replacing(BUNDLES / f"{name}.tar", PRIVATE_MODE) as file:
                copy_all(bundle, file)

    def fetch(self, name: str, path: Path, mode: int) -> None:
        """Copy a bundle to its path, completely or not at all.

        :param name: name of the bundle, without suffix
        :param mode: mode of the file before the umask is applied
        :raises RecordError: the bundle cannot be read, or the file cannot be written
        """
        with _replacing(path, mode) as file, (BUNDLES / f"{name}.tar").open("rb") as bundle:
            copy_all(bundle, file)


class There:
    """Another machine, reached by ssh.

    :param ssh: the connection to it
    """

    is_here = False

    def __init__(self, ssh: Ssh) -> None:
        self._ssh = ssh
        self._sudo: list[str] | None = None
        self.name = ssh.host
        # Used for hooks that run on this machine.
        os.environ["SCHEDPERF_TARGET"] = ssh.host

    def act(self, verb: str, *arguments: str, source: bytes = b"") -> Mapping[str, Any]:
        """Run one verb of :mod:`agent` on the other machine.

        :raises Unreachable: the target does not answer
        :raises RecordError: it failed, or root access is refused
        :raises Interrupted: a signal requests termination
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
            known = status if status in {1, TRY_AGAIN} else 2
            raise RecordError(f"{self.name}: {result['error']}", known)
        answer: Mapping[str, Any] = result
        return answer

    def call(self, hook: str, arguments: Sequence[str], limit_s: float = LIMIT_S) -> Called:
        """Call a boot hook: a built-in hook runs on the target, ``command:`` on this machine.

        The errors are those of :meth:`act` and :func:`call_here`.
        """
        if hook.startswith(COMMAND):
            return call_here(hook, arguments, limit_s)
        result = self.act("hook", f"{limit_s}", hook, *arguments)
        return Called(result["status"], str(result["stdout"]), str(result["stderr"]))

    def install(self, recorder: bytes) -> None:
        """Copy the recorder there, and unpack it with the Python there.

        :param recorder: a zip file
        :raises Unreachable: the target does not answer
        :raises RecordError: root access is refused, the copy failed, or a recording uses the
            machine
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

    def store(self, name: str, path: Path) -> None:
        """Copy an existing bundle to the target, completely or not at all.

        :param name: name of the bundle, without suffix
        :raises Unreachable: the connection broke, or other bytes arrived
        :raises RecordError: the bundle cannot be read, or the target has no space for it
        """
        with _reading(path) as bundle:
            expected = agent.describe(bundle)
            bundle.seek(0)
            words = ["sh", "-c", _STORE, "sh", str(BUNDLES), f"{name}.tar"]
            output = self._ssh.run([*self._as_root(), *words], bundle, _COPY_LIMIT_S)
        if output.status != 0:
            raise RecordError(
                f"{self.name}: {BUNDLES}/{name}.tar: could not be written ({output.last_line()}); "
                "free space there",
                TRY_AGAIN,
            )
        if self.act("list", name)[name] != expected:
            raise Unreachable(f"{path}: incomplete copy")

    def fetch(self, name: str, path: Path, mode: int) -> None:
        """Copy a bundle here, completely or not at all.

        :param name: name of the bundle, without suffix
        :param path: path of the copy
        :param mode: mode of the copy before the umask is applied
        :raises Unreachable: the connection broke, or other bytes arrived
        :raises RecordError: the bundle does not exist, or the copy cannot be written
        """
        expected = self.act("list", name)[name]
        if expected is None:
            raise RecordError(f"{self.name}: {BUNDLES}/{name}.tar: no such file; record again", 1)
        with _replacing(path, mode) as file:
            words = [*self._as_root(), "cat", str(BUNDLES / f"{name}.tar")]
            self._ssh.run(words, b"", _COPY_LIMIT_S, file)
            if agent.describe(file) != expected:
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
    """Return whether a parsed output is the result of this verb, or an error."""
    return isinstance(result, dict) and (verb != "look" or "error" in result or _is_look(result))


def _is_look(result: Mapping[str, Any]) -> bool:
    """Return whether a result has the fields of a machine's state that the engine reads."""
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
def _reading(path: Path) -> Iterator[BinaryIO]:
    """Open a bundle to read.

    :raises RecordError: the block raised an error of the operating system
    """
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        where = error.filename or path
        raise RecordError(f"{where}: {explain(error)}; see `df` and the file's mode") from error


@contextlib.contextmanager
def _replacing(path: Path, mode: int) -> Iterator[BinaryIO]:
    """Yield a new file that replaces the path at the end of the block.

    :raises RecordError: the block raised an error of the operating system
    """
    try:
        with replacing(path, mode) as file:
            yield file
    except OSError as error:
        remedy = "free space" if error.errno in OUT_OF_SPACE else "make it writable"
        raise RecordError(f"{path}: {explain(error)}; {remedy} and continue") from error


def own_archive() -> bytes:
    """Return the recorder as a zip file: the running one, or one built from installed sources."""
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
