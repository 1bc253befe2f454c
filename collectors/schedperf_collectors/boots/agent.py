# SPDX-License-Identifier: GPL-2.0-or-later
"""Act on the machine under test: identify the kernel, call hooks, record one boot, keep bundles.

The engine calls :func:`act` here, or by ssh in the recorder that it copied to the target. Each
verb can be repeated; what it changed is on disk before it returns.
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
from typing import Any, Callable

from schedperf_collectors.boots.call import call_here
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.machine.kernel_files import build_id
from schedperf_collectors.machine.system import System
from schedperf_collectors.recorder.bundle import BundleWriter, examine, write_durably
from schedperf_collectors.recorder.recover import recover

# Survives boots. The engine of --resume has its state here too.
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
# Less space is not enough for bundles, logs and the boot loader's files.
LEAST_FREE_BYTES = 256 << 20
LEAST_BOOT_BYTES = 1 << 20
# A recorder that is asked to end finishes its bundles.
_ENDS_WITHIN_S = 50.0
_BUSY_OVER_S = 1.0
# systemd waits for units to start; a machine without it is asked nothing.
_SYSTEMCTL_S = 10.0

Record = Mapping[str, Any]


def act(verb: str, arguments: Sequence[str], source: bytes = b"") -> Record:
    """Do one thing on this machine; return its result.

    :raises RecordError: it failed
    """
    try:
        return _VERBS[verb](arguments, source)
    except OSError as error:
        where = error.filename or HOME
        raise RecordError(f"{where}: {explain(error)}; see `df` and the file's mode", 1) from error


def main(arguments: Sequence[str]) -> int:
    """Run a verb for another machine: input and result are JSON.

    An error is part of the result, so that it is distinguished from one of ssh or Python.
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
    """Return which kernel runs, which boot it is, and what the machine is doing."""
    try:
        identity: str | None = build_id(System())
    except Unavailable:
        identity = None
    return {
        "boot_id": _text(_PROC / "random" / "boot_id"),
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
                f"{folder}: less than {least >> 20} MiB free; remove files there, then continue", 1
            )
    return {}


def _settle(_arguments: Sequence[str], _source: bytes) -> Record:
    """Return whether units are still starting, and how busy the CPUs are."""
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


def _claim(arguments: Sequence[str], _source: bytes) -> Record:
    """Reserve this machine for a session; the claim survives boots."""
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
    """Refuse a machine that another session has claimed.

    :param claim: None: nobody has
    :raises RecordError: another session has
    """
    if claim is not None and claim.get("session") != session:
        raise RecordError(
            f"{CLAIM}: another recording uses this machine ({_say(claim.get('who'))}); wait "
            f"for its end, or end it with: {_say(claim.get('free')) or f'rm {CLAIM}'}"
        )


def _say(value: object) -> str:
    return "".join(filter(str.isprintable, str(value or "")))[:300]


def _release(arguments: Sequence[str], _source: bytes) -> Record:
    """End the claim of a session, and remove what it left on this machine."""
    if _read(CLAIM).get("session") == arguments[0]:
        for path in (_JOB, _STATUS, _LOG, _LOCK, _STOP):
            path.unlink(missing_ok=True)
        shutil.rmtree(BUNDLES, ignore_errors=True)
        # The recorder stays: it runs this.
        CLAIM.unlink()
    return {}


def _start(_arguments: Sequence[str], source: bytes) -> Record:
    """Start the recorder of one boot, detached; what a killed one left is recovered first."""
    job = json.loads(source)
    # The machine may have lost power since the engine checked the kernel.
    if job["boot_id"] != _text(_PROC / "random" / "boot_id"):
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
            # It ended, or was killed; the engine decides.
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
                # The lock ends with the job, however that ends.
                pass_fds=(lock.fileno(),),
            )
    return {}


def _run_job() -> int:
    """Run the recorder of one boot, and note its end."""
    job = _read(_JOB)
    # The group gets the signal; the recorder ends, and this process notes how.
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
    """Return the recording of one boot: running, done (with its status), or lost."""
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
    """Let the recorder end after its running run; return whether it still runs."""
    is_running = _is_running()
    if is_running:
        _STOP.touch()
    return {"is_running": is_running}


def _stop(_arguments: Sequence[str], _source: bytes) -> Record:
    """End the running recorder; it keeps its finished runs."""
    pid = _read(_STATUS).get("pid")
    if isinstance(pid, int) and pid > 1 and _is_running():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGTERM)
    until = time.monotonic() + _ENDS_WITHIN_S
    while _is_running() and time.monotonic() < until:
        time.sleep(0.1)
    return {"is_running": _is_running()}


def _recover(arguments: Sequence[str], _source: bytes) -> Record:
    """Recover what a killed recorder left of these bundles."""
    return {name: recover(BUNDLES / f"{name}.tar") for name in arguments}


def _seal(_arguments: Sequence[str], source: bytes) -> Record:
    """Write into each bundle whether it has all its boots; {name: reason or null}."""
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
        # A boot that was repeated has more runs than were planned.
        manifest["planned_runs"] = None
    manifest.update(complete=reason is None, incomplete_reason=reason)
    BundleWriter(path, existing).finish(manifest)


def _list(arguments: Sequence[str], _source: bytes) -> Record:
    """Return the size and checksum of each bundle that exists."""
    return {name: describe_file(BUNDLES / f"{name}.tar") for name in arguments}


def describe_file(path: Path) -> Record | None:
    """Return the size and checksum of a file; None without one."""
    if not path.exists():
        return None
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for chunk in _chunks(file):
            digest.update(chunk)
        return {"bytes": file.tell(), "sha256": digest.hexdigest()}


def _chunks(file: Any) -> Iterator[bytes]:
    return iter(lambda: file.read(1 << 20), b"")


def _read(path: Path) -> Record:
    """Return a JSON object; {} if there is none, or it is damaged."""
    try:
        with path.open("rb") as file:
            return parse_object(file.read(_LONGEST_BYTES))
    except OSError:
        return {}


def parse_object(text: bytes) -> Record:
    """Return a JSON object; {} if the text is damaged."""
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
    "claim": _claim,
    "release": _release,
    "start": _start,
    "finish": _finish,
    "stop": _stop,
    "recover": _recover,
    "seal": _seal,
    "list": _list,
}
