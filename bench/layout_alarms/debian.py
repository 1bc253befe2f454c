# SPDX-License-Identifier: GPL-2.0-or-later
"""Download Debian's kernel packages with apt, and extract the files that schedperf reads."""

import gzip
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path

from bench.layout_alarms.vmlinuz import unpack

# 6.1 of bookworm and 6.12 of its security updates; no unsigned kernels.
_PACKAGES = r"^linux-image-6\.(1\.0-[0-9]+|12\.[0-9]+\+deb[0-9]+)-{flavour}$"
FLAVOURS = ("amd64", "cloud-amd64")
_VERSION = re.compile(r"^(?P<source>linux[\w.+-]*) \((?P<version>[^)]+)\)", re.MULTILINE)
# "- sched/fair: …", with an architecture in brackets or without.
_SCHED_LINE = re.compile(r"^\s+[-*] (?:\[[^]]*\] )*sched/", re.MULTILINE)
_SERIES = re.compile(r"linux-image-(\d+\.\d+)")
_DIGITS = re.compile(r"(\d+)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Image:
    """One unpacked kernel.

    :param name: "6.1.0-47-amd64"
    :param series: "6.1"
    :param folder: directory with System.map, btf, config and changelog
    """

    name: str
    series: str
    folder: Path

    @property
    def changelog(self) -> str:
        """Return Debian's changelog of the package."""
        return (self.folder / "changelog").read_text(encoding="utf-8", errors="replace")


def find_packages(flavour: str) -> list[str]:
    """Return the names of the kernel packages of a flavour that apt lists, oldest first.

    :param flavour: one of ``FLAVOURS``
    :raises subprocess.CalledProcessError: apt-cache fails
    """
    pattern = _PACKAGES.format(flavour=flavour)
    found = subprocess.run(
        ["apt-cache", "search", "--names-only", pattern], capture_output=True, text=True, check=True
    )
    names = {line.split(" ", 1)[0] for line in found.stdout.splitlines()}
    return sorted(names, key=_by_number)


def _by_number(name: str) -> list[tuple[int, str]]:
    return [(int(part), "") if part.isdigit() else (0, part) for part in _DIGITS.split(name)]


def prepare(package: str, cache: Path) -> Image:
    """Download and unpack one package, unless the cache has it.

    :raises subprocess.CalledProcessError: apt-get or tar fails
    :raises DamagedImageError: the image has no symbols or no BTF
    :raises InputError: the image cannot be unpacked
    """
    name = package.removeprefix("linux-image-")
    folder = cache / name
    series = _SERIES.match(package)
    image = Image(name=name, series="" if series is None else series[1], folder=folder)
    if (folder / "changelog").exists():
        return image
    folder.mkdir(parents=True, exist_ok=True)
    if not list(folder.glob("*.deb")):
        subprocess.run(["apt-get", "download", "-q", package], cwd=folder, check=True)
    (archive,) = folder.glob("*.deb")
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", archive], stdout=subprocess.PIPE) as deb:
        subprocess.run(
            ["tar", "-x", "-C", folder, "./boot", "./usr/share/doc"], stdin=deb.stdout, check=True
        )
    table, btf = unpack(next(folder.glob("boot/vmlinuz-*")).read_bytes())
    (folder / "System.map").write_text(table, encoding="utf-8")
    (folder / "btf").write_bytes(btf)
    next(folder.glob("boot/config-*")).rename(folder / "config")
    text = gzip.decompress(next(folder.glob("usr/share/doc/*/changelog.gz")).read_bytes())
    archive.unlink()
    (folder / "changelog").write_bytes(text)
    return image


def pairs(images: Sequence[Image]) -> Iterator[tuple[Image, Image]]:
    """Yield every two successive kernels of each series, then its oldest and newest.

    :param images: sorted by series and version
    """
    for _, group in groupby(images, key=lambda image: image.series):
        kernels = list(group)
        yield from pairwise(kernels)
        if len(kernels) > 2:  # noqa: PLR2004 # of two, the pair is above
            yield kernels[0], kernels[-1]


def sched_lines(base: Image, new: Image) -> int:
    """Return the number of changes of ``sched/`` in new's changelog since base.

    :raises SystemExit: new's changelog does not contain the version of base
    """
    entries = list(_VERSION.finditer(new.changelog))
    versions = [_version(entry) for entry in entries]
    first = _VERSION.search(base.changelog)
    if first is None or _version(first) not in versions:
        raise SystemExit(f"{new.name}: its changelog does not reach back to {base.name}")
    end = entries[versions.index(_version(first))].start()
    return len(_SCHED_LINE.findall(new.changelog[:end]))


def _version(entry: re.Match[str]) -> str:
    # The signed package of 6.1.170-3 has version 6.1.170+3.
    is_signed = entry["source"].startswith("linux-signed")
    return entry["version"].replace("+", "-", 1) if is_signed else entry["version"]
