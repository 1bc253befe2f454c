# SPDX-License-Identifier: GPL-2.0-or-later
"""Real kernels to boot under QEMU: those at hand, else two of the distribution's.

The tests of two xdist groups, guests-1 and guests-2, take equally long: one worker for each of two
CPUs.
"""

import contextlib
import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from schedperf.commands._recorder import system_python
from schedperf.commands._zipapp import build_zipapp
from schedperf.lab.vm.guest import GuestFailed, Hypervisor, boot
from schedperf.lab.vm.images import read_kernel
from schedperf.lab.vm.machine import make_machine, total_memory
from schedperf.lab.vm.script import PREPARE
from schedperf_collectors.bpf.objects import OBJECT
from tests.shared_data import KERNELS

ROOT = Path(__file__).parent.parent.parent
# Kernels of KERNELS; the first is base; the second has two more per-CPU variables.
NAMES = ("tip", "cluster")
PROGRAMS = {
    "vng": "virtme-ng",
    "qemu-system-x86_64": "qemu-system-x86",
    "hackbench": "rt-tests",
    "perf": "linux-perf",
    "clang": "clang",
}
# What a guest needs of a distributed kernel. udev would load a hundred others, and each `perf
# record` looks at every file, which takes half a minute under emulation.
GUEST_MODULES = re.compile(r"9p|fscache|netfs|overlay|virtio")
# Debian's kernels of one flavour; others lack 9p (cloud) or are another scheduler's (rt).
DISTRIBUTED = re.compile(r"^linux-image-(\d+\.\d+\.\d+-\d+-amd64) ", re.MULTILINE)
LOADERS = ROOT / "bench" / "vm" / "loaders.py"
ENTER_CGROUP = ROOT / "examples" / "deep-cgroup" / "enter-cgroup"
# A guest says every 10 s that it runs, and one that does not for two minutes hangs. Events are
# rarer: a step of a guest takes minutes on a busy machine.
LONGEST_STEP_S = 900.0
# As schedperf.lab.vm.session has it: what hangs once may not hang twice.
ATTEMPTS = 2
HANGS = re.compile(r"\bit (?:hung|printed nothing) for ")

# The kernel calls this function for each firing of the bare tracepoint that a BPF program sees,
# which has no event that perf could count.
HANDLER = "__bpf_trace_pelt_se_tp"

RUN = """\
exec 9>/mnt/events
exec >/mnt/log 2>&1
tell() { echo "{\\"event\\": \\"$1\\"}" >&9; echo "$1 after $(cut -d' ' -f1 /proc/uptime) s"; }
trap 'echo $? >/mnt/status' EXIT
set -eu
tell booted
while sleep 10; do echo '{"event": "alive"}' >&9; done &
PREPARE
# With autogroup a shell's tasks are not in the root group.
echo 0 >/proc/sys/kernel/sched_autogroup_enabled
export TMPDIR=/run/schedperf
mkdir $TMPDIR
cp /mnt/recorder /mnt/enter-cgroup /mnt/loops $TMPDIR
cd $TMPDIR
handler=$(sed -n 's/^\\([0-9a-f]*\\) . HANDLER$/0x\\1/p' /proc/kallsyms)
# Both loaders, in the same run. Nothing of bcc's is in the recorder's file.
PYTHONPATH=/mnt/recorder PYTHON -B /mnt/loaders.py --once >/mnt/loaders.json
tell loaders
# Without the packed object, and without clang, bcc takes over.
clang=$(command -v clang || true)
[ -z "$clang" ] || mount --bind /dev/null $clang
PYTHON -I /mnt/fallback.py
[ -z "$clang" ] || umount $clang
tell fallback
PYTHON -I recorder record --events 9 -o checked.tar -n 1 --instrumented 1 --warmup 0 \\
    --with bpf_pelt --set bpf_pelt.cross_check=1 -- hackbench -l 50 -g 2
tell checked
PYTHON -I recorder ab --events 9 -o depth -n 1 --instrumented 1 --warmup 0 \\
    --base-setup './enter-cgroup 0 $$' --new-setup './enter-cgroup 8 $$' \\
    --with bpf_pelt,bpf_placement,perf_stat \\
    -- perf stat -a -x, -e mem:$handler:x,sched:sched_wakeup,sched:sched_wakeup_new,\\
sched:sched_migrate_task hackbench -l 100 -g 1
tell depth
# What a group counted is read once more before it is removed.
remove='rmdir /sys/fs/cgroup/limited* || true'
PYTHON -I recorder ab --events 9 -o limit -n 1 --instrumented 1 --warmup 0 \\
    --base-setup 'echo 1 >/run/groups' --base-teardown "$remove" \\
    --new-setup 'echo 2 >/run/groups' --new-teardown "$remove" \\
    --with bpf_placement,system_counters -- sh loops
tell limit
state() {
    grep -rs . /proc/sys/kernel /proc/sys/vm /sys/kernel/debug/sched | grep -v -e /random/ \\
        -e ns_last_pid -e sched/debug: -e max_newidle -e max_sample_rate -e stat_refresh | sort
    find /sys/fs/cgroup -type d | sort
}
state >/mnt/state-before
PYTHON -I recorder ab --events 9 -o feature --feature TTWU_QUEUE -n 2 --warmup 0 --with none \\
    -- sh -c 'cat /sys/kernel/debug/sched/features; hackbench -l 20 -g 1'
state >/mnt/state-restored
PYTHON -I recorder ab -o killed --feature TTWU_QUEUE -n 2 --warmup 0 --with none \\
    -- tail -f /dev/null &
until grep -q NO_TTWU_QUEUE /sys/kernel/debug/sched/features; do sleep 0.1; done
kill -KILL $!
pkill -x tail || true
PYTHON -I recorder ab status >/mnt/left
PYTHON -I recorder ab stop >/mnt/stopped
state >/mnt/state-stopped
tell feature
PYTHON -I recorder doctor --json >doctor.json
tell doctor
cp *.tar doctor.json /mnt/
# Last, since it switches a CPU off and turns the clock.
cd /mnt
PYTHON -I disturbed.py
"""
# Each group gets a quarter of a CPU: 25 ms in each period of 100 ms.
LOOPS = """\
loop() {
    mkdir $1
    echo 25000 100000 >$1/cpu.max
    sh -c "echo \\$\\$ >$1/cgroup.procs; exec timeout 3 sh -c 'while :; do :; done'" || true
}
for group in $(seq $(cat /run/groups)); do
    loop /sys/fs/cgroup/limited$group &
done
wait
"""


# The collector by itself.
COUNTING = """\
import contextlib, os, pathlib, subprocess, sys, time
sys.path.insert(0, "RECORDER")
from schedperf_collectors.plugin import Capture
from schedperf_collectors.bpf_pelt import bpf_pelt

@contextlib.contextmanager
def counting(name, **options):
    directory = pathlib.Path("/mnt") / name
    directory.mkdir()
    running = bpf_pelt(Capture(directory, os.getpid(), options))
    next(running)
    next(running)
    yield
    assert list(running) == []

"""

# With the recorder of a machine that has no clang.
FALLBACK = """\
with counting("fallback"):
    subprocess.run(["hackbench", "-l", "20", "-g", "1"], check=True)
"""

# Half of its time is sampled, and the other half is a bad day.
DISTURBED = """\
with counting("sampled", sampling="4"):
    subprocess.run(["hackbench", "-l", "50", "-g", "2"], check=True)
# Without its types the kernel has no fentry.
subprocess.run(["mount", "--bind", "/dev/null", "/sys/kernel/btf/vmlinux"], check=True)
with counting("disturbed"):
    subprocess.run(["hackbench", "-l", "20", "-g", "2"], check=True)
    pathlib.Path("/sys/devices/system/cpu/cpu3/online").write_text("0")
    pathlib.Path("/sys/kernel/debug/kprobes/enabled").write_text("0")
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600)
"""


@pytest.fixture(scope="session")
def guest_environment() -> Mapping[str, str]:
    """Return an environment in which everything that boots a guest is found."""
    # Programs of this environment lie beside its Python, which need not be on the PATH.
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is missing; install {package}")
    if subprocess.run(["/usr/bin/python3", "-c", "import bcc"], capture_output=True).returncode:
        pytest.skip("bcc is missing; run: apt-get install -y python3-bpfcc")
    return {**os.environ, "PATH": path}


@pytest.fixture(scope="session")
def kernel_images(guest_environment: Mapping[str, str]) -> Mapping[str, Path]:
    """Return two kernels that boot as guests, by name; the first is base."""
    own = {name: KERNELS / name / "bzImage" for name in NAMES}
    if all(image.is_file() for image in own.values()):
        return own
    if shutil.which("apt-get", path=guest_environment["PATH"]) is None:
        pytest.skip(
            f"no {own['tip']}, and no apt-get; set SCHEDPERF_KERNELS to a directory with it"
        )
    found = _run("apt-cache", "search", "--names-only", r"^linux-image-6\.[0-9]+\.0-").stdout
    releases = sorted(DISTRIBUTED.findall(found))
    if len(releases) < len(NAMES):
        pytest.skip(f"no {own['tip']}, and apt knows no two kernels; run: apt-get update")
    return {
        name: _unpacked(release)
        for name, release in zip(("old", "new"), (releases[0], releases[-1]), strict=True)
    }


@pytest.fixture(scope="session")
def share(
    kernel_images: Mapping[str, Path],
    guest_environment: Mapping[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Path:
    """Boot a guest that does all that is asked of it here; return what it brought."""
    kernel = read_kernel(*next(iter(kernel_images.items())), None, Path("/lib/modules"))
    share = tmp_path_factory.mktemp("traces")
    text = RUN.replace("PYTHON ", f"{system_python()} ").replace("HANDLER", HANDLER)
    text = text.replace("PREPARE\n", PREPARE)
    (share / "run").write_text(text)
    (share / "loops").write_text(LOOPS)
    (share / "disturbed.py").write_text(COUNTING.replace("RECORDER", "/mnt/recorder") + DISTURBED)
    (share / "fallback.py").write_text(COUNTING.replace("RECORDER", "/mnt/unpacked") + FALLBACK)
    shutil.copy(LOADERS, share)
    (share / "recorder").write_bytes(build_zipapp())
    _leave_out_objects(share / "recorder", share / "unpacked")
    shutil.copy(ENTER_CGROUP, share)
    hypervisor = Hypervisor(
        vng=shutil.which("vng", path=guest_environment["PATH"]) or "vng",
        machine=make_machine(4, 2, 1, "4G", total_memory()),
        is_kvm=False,
        kernel_arguments="",
        silence_s=LONGEST_STEP_S,
    )
    for attempt in range(ATTEMPTS):
        try:
            boot(hypervisor, kernel.image, share, lambda _: None, is_verbose=attempt > 0)
        except GuestFailed as error:
            failure = error.reason
        else:
            return share
    ended = f"the guest failed in all {ATTEMPTS} attempts: {failure}"
    # An emulator may hang, whatever runs in it; what panics or dies is wrong.
    if HANGS.search(failure):
        pytest.skip(ended)
    pytest.fail(ended)


def _leave_out_objects(recorder: Path, path: Path) -> None:
    """Write a recorder as a machine without clang makes it."""
    with zipfile.ZipFile(recorder) as packed, zipfile.ZipFile(path, "w") as without:
        for member in packed.infolist():
            if not member.filename.endswith(OBJECT):
                without.writestr(member, packed.read(member))


@pytest.fixture(scope="session")
def compare_as_json(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Sequence[Path]], Any]:
    """Compare bundles with the command: ``compare_as_json([base, new]) -> Comparison``."""

    def compare(bundles: Sequence[Path]) -> Any:
        output = tmp_path_factory.mktemp("compared") / "compared.json"
        command = [sys.executable, "-m", "schedperf", "compare", *map(str, bundles)]
        compared = _run(*command, "--json", str(output))
        assert compared.returncode == 0, compared.stdout + compared.stderr
        return json.loads(output.read_bytes())

    return compare


def _unpacked(release: str) -> Path:
    """Return the image of a distributed kernel, which lies as its packages have it.

    :param release: what ``uname -r`` prints in it
    """
    # They take 0.5 GB and are kept; the user's cache is where that may be thrown away.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "schedperf", "kernels")
    cache.mkdir(parents=True, exist_ok=True)
    folder, making = cache / f"guest-{release}", cache / f"guest-{release}.making"
    # Several workers need them, and the first unpacks them.
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            shutil.rmtree(making, ignore_errors=True)
            making.mkdir()
            common = release.removesuffix("amd64") + "common"
            names = [f"image-{release}", f"headers-{release}", f"headers-{common}"]
            _unpack(making, [f"linux-{name}" for name in names])
            _relink(making / "lib/modules" / release)
            _leave_out_modules(making, release)
            making.rename(folder)
    return folder / "boot" / f"vmlinuz-{release}"


def _unpack(folder: Path, names: Sequence[str]) -> None:
    fetched = _run("apt-get", "download", *names, cwd=folder)
    if fetched.returncode:
        pytest.skip(f"kernels cannot be fetched: {fetched.stderr.strip().splitlines()[-1]}")
    for package in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", package, folder], check=True)
        package.unlink()


def _relink(modules: Path) -> None:
    """Let the links to the headers, by which bcc finds them, stay within the directory."""
    for name in ("build", "source"):
        link = modules / name
        target = os.readlink(link)  # noqa: PTH115 # it leads nowhere
        link.unlink()
        link.symlink_to(f"../../..{target}")


def _leave_out_modules(folder: Path, release: str) -> None:
    """Remove the modules that no guest needs from an unpacked kernel."""
    for path, _, files in os.walk(folder / "lib/modules" / release / "kernel", topdown=False):
        for name in files:
            if not GUEST_MODULES.search(name):
                Path(path, name).unlink()
        with contextlib.suppress(OSError):  # it has a module, or a directory with one
            Path(path).rmdir()
    subprocess.run(["depmod", "--basedir", folder, release], check=True)


def _run(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True)
