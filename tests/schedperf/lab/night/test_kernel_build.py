# SPDX-License-Identifier: GPL-2.0-or-later
"""The example of ``kernel.build``: builds and installs once, also after kills."""

import os
import random
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from schedperf.commands.night import kernel_build
from schedperf_collectors.recorder.source import read_source

pytestmark = [
    pytest.mark.system,
    pytest.mark.skipif(os.geteuid() != 0, reason="mount namespaces need root"),
]

# What the real make of a kernel does with these targets, for a tree with the file VERSION.
_MAKE = """\
#!/bin/sh
set -e
for word in "$@"; do
    case $word in
    O=*) out=${word#O=} ;;
    LOCALVERSION=*) suffix=${word#*=} ;;
    INSTALL_MOD_PATH=*) stage=${word#*=} ;;
    esac
    target=$word
done
case $target in
KDEB*) target=deb ;;
INSTALL_MOD_STRIP*) target=modules_install ;;
O=*|LOCAL*) target= ;;
esac
release=$(cat "$2/VERSION")$suffix
case $target in
olddefconfig) echo "CONFIG_CC_VERSION_TEXT=\\"$FAKE_CC\\"" >>"$out/.config" ;;
kernelrelease) echo "$release" ;;
image_name) echo image ;;
modules_install)
    mkdir -p "$stage/lib/modules/$release"
    echo m >"$stage/lib/modules/$release/modules.dep" ;;
*)
    echo "$release" >>"$out/../built"
    sleep "${FAKE_S:-0}"
    echo "$release $FAKE_CC" >"$out/image"
    echo map >"$out/System.map"
    if [ "$target" = deb ]; then
        mkdir -p "$out/deb/boot" "$out/deb/lib/modules/$release"
        cp "$out/image" "$out/deb/boot/vmlinuz-$release"
        cp "$out/.config" "$out/deb/lib/modules/$release/modules.dep"
        name=linux-image-${release}_1_amd64.deb
        (cd "$out/deb" && tar -cf "$out/../$name" boot/* lib/modules/*)
        rm -r "$out/deb"
    fi ;;
esac
"""
_SSH = """\
#!/bin/sh
while [ "$1" != -- ]; do shift; done
[ "$2" = root@lab ] || exit 255
exec unshare -m sh -c 'mount --make-rprivate / && mount --bind "$0/boot" /boot &&
    mount --bind "$0/modules" /lib/modules && exec sh -c "$1"' "$MACHINE" "$3"
"""
_DPKG = """\
#!/bin/sh
case $1 in
-i) tar -xf "$2" -C / ;;
-s) [ -e "/lib/modules/${2#linux-image-}/modules.dep" ] ;;
--purge) echo "purge $2" >>"$MACHINE/calls" ;;
esac
"""
_KERNEL_INSTALL = '#!/bin/sh\necho "$*" >>"$MACHINE/calls"\n'
_UNAME = '#!/bin/sh\ncat "$MACHINE/running"\n'


class Lab:
    """A tree, and a machine without a kernel of the tree."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tree = folder / "tree"
        self.machine = folder / "machine"
        for name in ("boot", "modules"):
            (self.machine / name).mkdir(parents=True)
        (self.machine / "running").write_text("6.1.0-debian\n")
        (folder / "bin").mkdir()
        programs = {"make": _MAKE, "ssh": _SSH, "dpkg": _DPKG, "kernel-install": _KERNEL_INSTALL}
        for name, text in {**programs, "uname": _UNAME, "depmod": "#!/bin/sh\n"}.items():
            (folder / "bin" / name).write_text(text)
            (folder / "bin" / name).chmod(0o755)
        self.git("init", "-q", "-b", "sched/core", str(self.tree), at=folder)
        self.commit("sched: release", "6.19.0")
        self.git("tag", "v6.19")
        self.commit('sched: "quoted" \\ and \N{LATIN SMALL LETTER E WITH ACUTE}', "6.19.0")
        (folder / "lab.config").write_text("CONFIG_MODULES=y\n")
        self.settings()
        script = folder / "kernel-build"
        script.write_text(_script())
        script.chmod(0o755)

    def settings(self, **changes: str) -> None:
        values = {
            "tree": str(self.tree), "ref": "sched/core", "reference": "v6.19",
            "config": "lab.config", "work": str(self.folder / "work"), "install": "files",
            "keep": "2", "make": "make", **changes,
        }  # fmt: skip
        text = "".join(f"{name}='{value}'\n" for name, value in values.items())
        (self.folder / "settings").write_text(text)

    def git(self, *words: str, at: Path | None = None) -> str:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        done = subprocess.run(
            ["git", *identity, *words], cwd=at or self.tree, check=True, capture_output=True,
            text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def commit(self, subject: str, version: str) -> None:
        (self.tree / "VERSION").write_text(f"{version}\n")
        self.git("add", "VERSION")
        self.git("commit", "-q", "--allow-empty", "-m", subject)

    def start(self, night: str, cc: str = "gcc 12", **more: str) -> subprocess.Popen[str]:
        environment = {
            **os.environ, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}", "FAKE_CC": cc,
            "MACHINE": str(self.machine), "SCHEDPERF_TARGET": "root@lab:22",
            "SCHEDPERF_NIGHT": night, **more,
        }  # fmt: skip
        return subprocess.Popen(
            [self.folder / "kernel-build", self.folder / "settings"], env=environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, night: str, cc: str = "gcc 12") -> str:
        process = self.start(night, cc)
        out, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
        return out

    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def release(self) -> str:
        return f"6.19.0-g{self.head()[:12]}"

    def installed(self) -> set[str]:
        marks = self.machine.glob("modules/*/schedperf-build")
        images = {
            path.name.removeprefix("vmlinuz-") for path in self.machine.glob("boot/vmlinuz-*")
        }
        assert {path.parent.name for path in marks} == images
        return images

    def built(self) -> Sequence[str]:
        return (self.folder / "work/build/built").read_text().split()


def _script() -> str:
    import click.testing  # noqa: PLC0415 # only here

    return click.testing.CliRunner().invoke(kernel_build).output


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """Return a lab."""
    return Lab(tmp_path)


@pytest.mark.parametrize("install", ["files", "deb"])
def test_nights_build_what_changed(lab: Lab, install: str) -> None:
    lab.settings(install=install)
    out = lab.run("2026-12-01")
    first = lab.release()
    assert f"new: installing {first} on root@lab:22" in out
    assert lab.installed() == {"6.19.0", first}
    source = read_source(str(lab.folder / f"work/commits/{first}.json"))
    assert source["commit"] == lab.head()
    assert source["subject"] == 'sched: "quoted" \\ and \N{LATIN SMALL LETTER E WITH ACUTE}'
    assert (source["ref"], source["author"]) == ("sched/core", "A <a@example.org>")
    mark = (lab.machine / f"modules/{first}/schedperf-build").read_text()
    assert 'CONFIG_CC_VERSION_TEXT="gcc 12"' in mark
    # The same again builds nothing; a night keeps its commit although the branch goes on.
    lab.commit("sched: later", "6.19.0")
    assert lab.run("2026-12-01") == (f"reference: 6.19.0 is installed\nnew: {first} is installed\n")
    assert lab.built() == ["6.19.0", first]
    pinned = lab.git("rev-parse", "refs/schedperf/2026-12-01", at=lab.folder / "work/linux")
    assert first == f"6.19.0-g{pinned[:12]}"
    # Another toolchain builds the reference again, too.
    lab.run("2026-12-02", cc="gcc 13")
    second = lab.release()
    assert lab.built() == ["6.19.0", first, "6.19.0", second]
    assert (lab.machine / "boot/vmlinuz-6.19.0").read_text() == "6.19.0 gcc 13\n"
    images = {path: path.stat().st_mtime for path in lab.machine.glob("boot/vmlinuz-*")}
    assert max(images, key=lambda path: images[path]).name == f"vmlinuz-{second}"


def test_the_keys_of_the_lab_are_defaults(lab: Lab) -> None:
    lab.settings(reference="")
    settings = lab.folder / "settings"
    lines = settings.read_text().splitlines()
    kept = [line for line in lines if not line.startswith(("tree=", "ref="))]
    settings.write_text("".join(f"{line}\n" for line in kept))
    process = lab.start(
        "2026-12-01",
        SCHEDPERF_URL=str(lab.tree),
        SCHEDPERF_REFS="sched/core sched/urgent",
        SCHEDPERF_SOURCES=str(lab.folder / "sources"),
    )
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert lab.installed() == {lab.release()}
    assert (lab.folder / "sources" / f"{lab.release()}.json").exists()


def test_old_kernels_are_removed_but_not_the_running_one(lab: Lab) -> None:
    own = lab.machine / "modules/6.1.0-debian"
    own.mkdir()
    releases = []
    for number in range(4):
        lab.commit(f"sched: {number}", "6.19.0")
        lab.run(f"2026-12-0{number + 1}")
        releases.append(lab.release())
        if number == 0:
            (lab.machine / "running").write_text(f"{lab.release()}\n")
        now = time.time() - 100 + number
        os.utime(lab.machine / f"modules/{lab.release()}/schedperf-build", (now, now))
    assert lab.installed() == {"6.19.0", releases[0], releases[2], releases[3]}
    assert own.is_dir()
    assert f"purge linux-image-{releases[1]}" in (lab.machine / "calls").read_text()


@pytest.mark.parametrize("seed", range(3))
def test_it_can_be_killed_anywhere(lab: Lab, seed: int) -> None:
    choose = random.Random(seed)  # noqa: S311 # faults, no secrets
    for _ in range(3):
        process = lab.start("2026-12-01", FAKE_S="0.05")
        time.sleep(choose.uniform(0.02, 0.8))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    lab.run("2026-12-01")
    assert lab.installed() == {"6.19.0", lab.release()}
    assert (lab.folder / f"work/commits/{lab.release()}.json").exists()


def test_what_is_wrong_is_one_line(lab: Lab) -> None:
    process = lab.start("2026-12-01", SCHEDPERF_TARGET="root@other")
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 75
    assert errors.splitlines()[-1].startswith("kernel-build: root@other: a command there failed")
    lab.settings(tree="")
    process = lab.start("2026-12-01")
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "tree: set it in" in errors
    done = subprocess.run(
        [lab.folder / "kernel-build"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert not lab.installed()


def test_shellcheck_finds_nothing(lab: Lab) -> None:
    try:
        subprocess.run(["shellcheck", lab.folder / "kernel-build"], check=True)
    except FileNotFoundError:
        pytest.skip("needs shellcheck")
