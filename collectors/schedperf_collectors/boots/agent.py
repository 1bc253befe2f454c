# SPDX-License-Identifier: GPL-2.0-or-later
"""Run actions on the machine under test: identify the kernel, call hooks, record, store bundles.

The name of an action is its *verb*. The engine calls :func:`act` directly, or by ssh in the
recorder that it copied to the target. It repeats a verb whose answer is lost, so each verb except a
call of a hook has the same effect if it is repeated.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Callable

from schedperf_collectors.boots.call import call_here
from schedperf_collectors.contract import Unavailable, read_boot_id
from schedperf_collectors.machine.errors import TRY_AGAIN, RecordError, explain
from schedperf_collectors.machine.kernel_files import build_id
from schedperf_collectors.machine.new_files import write_durably
from schedperf_collectors.machine.system import System
from schedperf_collectors.recorder.bundle import BundleWriter, examine
from schedperf_collectors.recorder.recover import recover

# This directory survives boots. The engine of --resume stores its state here, too.
HOME = Path("/var/lib/schedperf/boots")
RECORDER = HOME / "recorder"
BUNDLES = HOME / "bundles"
CLAIM = HOME / "claim.json"
HOLD = Path("/etc/schedperf/hold")

VERB = "boots-agent"

_JOB = HOME / "job.json"
_STATUS = HOME / "job.status"
_LOCK = HOME / "job.lock"
# Asks the recorder to end before its next run.
_STOP = HOME / "job.stop"
_LOG = HOME / "job.log"

_PROC = Path("/proc/sys/kernel")
_LONGEST_BYTES = 1 << 20
# Minimum free space for bundles, logs and the boot loader's files.
LEAST_FREE_BYTES = 256 << 20
LEAST_BOOT_BYTES = 1 << 20
# Time for a recorder that was asked to end to finish its bundles.
_ENDS_WITHIN_S = 50.0
_BUSY_OVER_S = 1.0
# Time for systemd to start its units; a machine without systemd is not asked.
_SYSTEMCTL_S = 10.0

Record = Mapping[str, Any]


def act(verb: str, arguments: Sequence[str], source: bytes = b"") -> Record:
    """Run one verb on this machine, and return its result.

    :param verb: a key of ``_VERBS``
    :param source: JSON for ``start`` and ``seal``; other verbs ignore it
    :raises RecordError: it failed
    :raises KeyError: no verb has this name
    """
    try:
        return _VERBS[verb](arguments, source)
    except OSError as error:
        where = error.filename or HOME
        raise RecordError(f"{where}: {explain(error)}; see `df` and the file's mode", 1) from error


def main(arguments: Sequence[str]) -> int:
    """Run a verb for another machine, and print its result as JSON; return exit status 0.

    An error is part of the result, to distinguish it from an error of ssh or Python. The verb
    ``job``, with which ``start`` starts this program, runs a boot's recorder and prints nothing.

    :param arguments: a verb and its arguments; ``start`` and ``seal`` also read JSON from stdin
    """
    verb, *rest = arguments
    if verb == "job":
        return _run_job()
    source = sys.stdin.buffer.read() if verb in {"start", "seal"} else b""
    try:
        result = act(verb, rest, source)
    except RecordError as error:
        result = {"error": str(error), "status": error.exit_status}
    sys.stdout.write(json.dumps(result) + "\n")
    return 0


def _look(_arguments: Sequence[str], _source: bytes) -> Record:
    """Return the boot id, the running kernel, the claim and the state of the recording.

    ``is_root`` is whether this user is root, and ``is_held`` whether ``HOLD`` forbids boots.

    ``build_id`` is None if the kernel has none, ``claim`` is None if no session claims the machine.
    """
    try:
        identity: str | None = build_id(System())
    except Unavailable:
        identity = None
    return {
        "boot_id": read_boot_id(),
        "release": _text(_PROC / "osrelease"),
        "version": _text(_PROC / "version"),
        "build_id": identity,
        "is_root": os.geteuid() == 0,
        "is_held": HOLD.exists(),
        "claim": _read(CLAIM).get("session"),
        "job": _job(),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").strip()


def _check_space(_arguments: Sequence[str], _source: bytes) -> Record:
    HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
    for folder, least in ((HOME, LEAST_FREE_BYTES), (Path("/boot"), LEAST_BOOT_BYTES)):
        if folder.is_dir() and shutil.disk_usage(folder).free < least:
            raise RecordError(
                f"{folder}: less than {least >> 20} MiB free; remove files there, then continue",
                TRY_AGAIN,
            )
    return {}


def _settle(_arguments: Sequence[str], _source: bytes) -> Record:
    """Return whether units of systemd are still starting, and how busy the CPUs are (0 to 1)."""
    return {"is_starting": _is_starting(), "busy": _busy()}


def _is_starting() -> bool:
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(
            ["systemctl", "is-system-running"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SYSTEMCTL_S,
            check=False,
        )
        return done.stdout.strip() in {b"initializing", b"starting"}
    return False


def _busy() -> float:
    """Return the fraction of CPU time that is not idle, over one second."""
    before = _cpu_times()
    time.sleep(_BUSY_OVER_S)
    spent = [after - first for after, first in zip(_cpu_times(), before)]
    # Idle and waiting for I/O.
    return 1 - sum(spent[3:5]) / max(1, sum(spent[:8]))


def _cpu_times() -> list[int]:
    words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    return [int(word) for word in words[1:]]


def _hook(arguments: Sequence[str], _source: bytes) -> Record:
    limit_s, hook, *rest = arguments
    called = call_here(hook, rest, float(limit_s))
    return {"status": called.status, "stdout": called.stdout, "stderr": called.stderr}


def _find_programs(arguments: Sequence[str], _source: bytes) -> Record:
    """Return those of the programs of workloads that do not exist, as ``missing``."""
    # The recorder of a boot runs in this directory.
    paths = {each: str(Path("/", each)) if "/" in each else each for each in arguments}
    return {"missing": [each for each in arguments if shutil.which(paths[each]) is None]}


def _claim(arguments: Sequence[str], _source: bytes) -> Record:
    """Reserve this machine for a session; the claim survives boots.

    :raises RecordError: another session has claimed it
    """
    session, who, free = arguments
    HOME.mkdir(mode=0o755, parents=True, exist_ok=True)
    check_claim(_read(CLAIM) if CLAIM.exists() else None, session)
    if CLAIM.exists():
        return {}
    mine = CLAIM.with_name(f"claim-{session}")
    write_durably(mine, json.dumps({"session": session, "who": who, "free": free}).encode())
    try:
        # Unlike a rename, a link fails if another session was faster.
        os.link(mine, CLAIM)
    except FileExistsError:
        check_claim(_read(CLAIM), session)
    finally:
        mine.unlink()
    return {}


def check_claim(claim: Record | None, session: str) -> None:
    """Reject a machine that another session has claimed.

    :param claim: the current claim, {} if its file is damaged; None if there is none
    :param session: id of the session that may have claimed it; "" to reject every claim
    :raises RecordError: another session has claimed it, or the claim is damaged
    """
    if claim is not None and claim.get("session") != session:
        raise RecordError(
            f"{CLAIM}: another recording uses this machine ({_say(claim.get('who'))}); wait "
            f"for its end, or end it with: {_say(claim.get('free')) or f'rm {CLAIM}'}",
            TRY_AGAIN,
        )


def _say(value: object) -> str:
    return "".join(filter(str.isprintable, str(value or "")))[:300]


def _release(arguments: Sequence[str], _source: bytes) -> Record:
    """End the claim of a session, and remove its files, except the recorder, from this machine.

    If the session has no claim, nothing changes.
    """
    if _read(CLAIM).get("session") == arguments[0]:
        for path in (_JOB, _STATUS, _LOG, _LOCK, _STOP):
            path.unlink(missing_ok=True)
        shutil.rmtree(BUNDLES, ignore_errors=True)
        # The recorder is not removed, because it is running this code.
        CLAIM.unlink()
    return {}


def _start(_arguments: Sequence[str], source: bytes) -> Record:
    """Start the recorder of one boot as a daemon, after recovering what a killed one left.

    It is not started if the machine has rebooted since the engine asked, or if this recording was
    started before.

    :raises RecordError: another recording is running, or a bundle cannot be recovered
    """
    job = json.loads(source)
    # The machine may have lost power since the engine checked the kernel.
    if job["boot_id"] != read_boot_id():
        return {}
    BUNDLES.mkdir(parents=True, exist_ok=True)
    with _LOCK.open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if _read(_JOB).get("id") == job["id"]:
                return {}
            raise RecordError(f"{_LOCK}: another recording is running; wait for its end") from None
        if _read(_JOB).get("id") == job["id"]:
            # It has ended or was killed; the engine decides what to do.
            return {}
        for name in job["bundles"]:
            recover(BUNDLES / f"{name}.tar")
        _STATUS.unlink(missing_ok=True)
        _STOP.unlink(missing_ok=True)
        write_durably(_JOB, json.dumps(job).encode())
        with _LOG.open("wb") as log:
            subprocess.Popen(
                [sys.executable, "-I", str(RECORDER), VERB, "job"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
                # The lock is released with the job, however the job ends.
                pass_fds=(lock.fileno(),),
            )
    return {}


def _run_job() -> int:
    """Run the recorder of one boot, and store how it ended."""
    job = _read(_JOB)
    # The whole group gets the signal; the recorder ends, and this process stores how.
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda *_: None)
    write_durably(_STATUS, json.dumps({"id": job["id"], "pid": os.getpid()}).encode())
    status = subprocess.call(
        [sys.executable, "-I", str(RECORDER), *_recorder_arguments(job)], stdin=subprocess.DEVNULL
    )
    write_durably(
        _STATUS, json.dumps({"id": job["id"], "pid": os.getpid(), "status": status}).encode()
    )
    return 0


def _recorder_arguments(job: Record) -> list[str]:
    paths = [BUNDLES / f"{name}.tar" for name in job["bundles"]]
    if job["is_design"]:
        target = ["ab", "--append", "-o", str(BUNDLES / job["name"])]
    elif paths[0].exists():
        target = ["record", "--append", str(paths[0])]
    else:
        target = ["record", "-o", str(paths[0]), "--label", job["name"]]
    return [*target, *job["options"], "--stop-file", str(_STOP), "--", *job["command"]]


def _job() -> Record:
    """Return the latest recording of a boot: its id, state, exit status and last line of output.

    The state is "none" (no recording was started; the id is None), "running", "done", or "lost" (it
    ended without storing its exit status, e.g. in a power cut). The exit status is negative for a
    signal, and None if it has not been stored.
    """
    job, status = _read(_JOB), _read(_STATUS)
    if not job:
        return {"id": None, "state": "none", "status": None, "text": ""}
    is_own = status.get("id") == job.get("id")
    ended = status.get("status") if is_own else None
    state = "running" if _is_running() else "lost" if ended is None else "done"
    return {"id": job.get("id"), "state": state, "status": ended, "text": _last_line()}


def _is_running() -> bool:
    with contextlib.suppress(FileNotFoundError), _LOCK.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _last_line() -> str:
    with contextlib.suppress(OSError), _LOG.open("rb") as log:
        log.seek(max(0, _LOG.stat().st_size - 4096))
        lines = log.read().decode(errors="replace").splitlines()
        return next((_say(line).strip() for line in reversed(lines) if line.strip()), "")
    return ""


def _finish(_arguments: Sequence[str], _source: bytes) -> Record:
    """Let the recorder end after its current run; return whether it is still running."""
    is_running = _is_running()
    if is_running:
        _STOP.touch()
    return {"is_running": is_running}


def _stop(_arguments: Sequence[str], _source: bytes) -> Record:
    """End the running recorder, which keeps its finished runs.

    Return whether it is still running after ``_ENDS_WITHIN_S``.
    """
    pid = _read(_STATUS).get("pid")
    if isinstance(pid, int) and pid > 1 and _is_running():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDS_WITHIN_S
    while _is_running() and time.monotonic() < until:
        time.sleep(0.1)
    return {"is_running": _is_running()}


def _recover(arguments: Sequence[str], _source: bytes) -> Record:
    """Recover bundles, given by name, from the files that a killed recorder left.

    Return the number of runs of each recovered bundle, by name. 0 means that no run was finished
    and that the files were removed; None that there was nothing to recover.
    """
    return {name: recover(BUNDLES / f"{name}.tar") for name in arguments}


def _seal(_arguments: Sequence[str], source: bytes) -> Record:
    """Mark in each bundle whether it has all its boots.

    ``source`` is a JSON object: by name of the bundle, why boots are missing; null if none is.
    """
    for name, reason in json.loads(source).items():
        path = BUNDLES / f"{name}.tar"
        recover(path)
        if path.exists():
            _write_end(path, reason)
    return {}


def _write_end(path: Path, reason: str | None) -> None:
    existing = examine(path)
    manifest = dict(existing.manifest)
    if manifest.get("complete") is (reason is None) and manifest["incomplete_reason"] == reason:
        return
    if reason is None:
        # A repeated boot has more runs than were planned.
        manifest["planned_runs"] = None
    manifest.update(complete=reason is None, incomplete_reason=reason)
    BundleWriter(path, existing).finish(manifest)


def _list(arguments: Sequence[str], _source: bytes) -> Record:
    """Return the size and checksum of each bundle by name; None for one that does not exist."""
    return {name: describe_file(BUNDLES / f"{name}.tar") for name in arguments}


def describe_file(path: Path) -> Record | None:
    """Return what :func:`describe` returns for a file; None if it does not exist.

    :raises OSError: it cannot be read
    """
    if not path.exists():
        return None
    with path.open("rb") as file:
        return describe(file)


def describe(file: IO[bytes]) -> Record:
    """Return the size of an open file ("bytes") and its SHA-256 ("sha256", hexadecimal)."""
    digest = hashlib.sha256()
    file.seek(0)
    for chunk in _chunks(file):
        digest.update(chunk)
    return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _chunks(file: Any) -> Iterator[bytes]:
    return iter(lambda: file.read(1 << 20), b"")


def _read(path: Path) -> Record:
    """Parse a file with a JSON object; return {} if it is missing, unreadable or damaged."""
    try:
        with path.open("rb") as file:
            return parse_object(file.read(_LONGEST_BYTES))
    except OSError:
        return {}


def parse_object(text: bytes) -> Record:
    """Parse a JSON object; return {} if the text is anything else."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


_VERBS: Mapping[str, Callable[[Sequence[str], bytes], Record]] = {
    "look": _look,
    "space": _check_space,
    "settle": _settle,
    "hook": _hook,
    "programs": _find_programs,
    "claim": _claim,
    "release": _release,
    "start": _start,
    "finish": _finish,
    "stop": _stop,
    "recover": _recover,
    "seal": _seal,
    "list": _list,
}
