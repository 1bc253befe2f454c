# SPDX-License-Identifier: GPL-2.0-or-later
"""Find BPF objects: packed beside their source, else compiled here and cached.

``schedperf pack`` compiles the programs (``NAME.bpf.c``) once, so that the machine under test
needs no compiler: the loader fits an object to any kernel that has BTF. Without a packed object,
and with clang, they are compiled here and kept in the user's cache directory
(``$XDG_CACHE_HOME/schedperf/bpf``, ``~/.cache/schedperf/bpf``), under a name that contains the
digest of the sources, the compiler's version and its options.
"""

from __future__ import annotations

import functools
import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path

from schedperf_collectors.contract import Unavailable, temporary_prefix
from schedperf_collectors.machine.kept_files import cache_folder, keep, read_kept
from schedperf_collectors.machine.system import execute, run

PACKAGE = "schedperf_collectors.bpf"
SOURCE, OBJECT, HEADER = ".bpf.c", ".bpf.o", ".h"
# -g adds BTF, which relocation needs; the object does not depend on the directory of the sources.
FLAGS = ("-target", "bpf", "-O2", "-g", "-fdebug-compilation-dir=.")
# 0.3 s each on an idle machine; 10 s were seen under emulation.
COMPILE_LIMIT_S = 60.0
# The objects have 0.1 MB.
OBJECT_LIMIT_BYTES = 16 << 20
# e_ident[EI_DATA] of an ELF file: ELFDATA2LSB or ELFDATA2MSB.
DATA_INDEX = 5
DATA_OF_ORDER = {"little": 1, "big": 2}


def read_object(name: str) -> bytes:
    """Return the bytes of a BPF object, e.g. ``read_object("placement")``.

    :raises Unavailable: no object is packed for this machine, and it cannot be compiled
    """
    packed = _read_packed(name + OBJECT)
    return compile_object(name) if packed is None else packed


def compile_all() -> dict[str, bytes]:
    """Compile all objects, or read them from the cache; return them by file name.

    Without sources, the result is empty.

    :raises Unavailable: there is no clang, or it fails
    """
    names = [name[: -len(SOURCE)] for name in list_sources() if name.endswith(SOURCE)]
    return {name + OBJECT: compile_object(name) for name in names}


def list_sources() -> list[str]:
    """Return the names of the programs' source files (``.bpf.c``) and of the headers, sorted."""
    names = (item.name for item in resources.files(PACKAGE).iterdir())
    return sorted(name for name in names if name.endswith((SOURCE, HEADER)))


def compile_object(name: str) -> bytes:
    """Compile a program, or read the object from the cache.

    :param name: name of the program: "placement"
    :raises Unavailable: there is no clang, or it fails
    """
    if shutil.which("clang") is None:
        raise Unavailable(
            f"this recorder does not contain {name}{OBJECT}, and clang is not installed",
            "run `apt-get install clang`, or use a recorder that `schedperf pack` wrote on a "
            "machine with clang",
        )
    sources = {
        each: resources.files(PACKAGE).joinpath(each).read_bytes()
        for each in list_sources()
        if each.endswith(HEADER) or each == name + SOURCE
    }
    kept = cache_folder("bpf") / f"{name}-{_digest(sources)}{OBJECT}"
    compiled = read_kept(kept, OBJECT_LIMIT_BYTES)
    if compiled is None:
        compiled = compile_sources(name, sources)
        keep(kept, compiled)
    return compiled


def _read_packed(file_name: str) -> bytes | None:
    packed = resources.files(PACKAGE).joinpath(file_name)
    if not packed.is_file():
        return None
    data = packed.read_bytes()
    return data if data[DATA_INDEX : DATA_INDEX + 1] == _our_order() else None


def _our_order() -> bytes:
    return bytes([DATA_OF_ORDER[sys.byteorder]])


def _digest(sources: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256("\0".join([_clang_version(), *FLAGS]).encode())
    for name, data in sorted(sources.items()):
        digest.update(f"\0{name}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def _clang_version() -> str:
    return run(["clang", "--version"], COMPILE_LIMIT_S)


def compile_sources(name: str, sources: Mapping[str, bytes]) -> bytes:
    """Compile a program with its headers; return the object.

    :param sources: the content of each file by its name; ``NAME.bpf.c`` is the program
    :raises Unavailable: clang is missing, fails (the reason is its first error), or does not
        finish within :data:`COMPILE_LIMIT_S`
    """
    with tempfile.TemporaryDirectory(prefix=temporary_prefix()) as folder:
        for each, data in sources.items():
            Path(folder, each).write_bytes(data)
        result = Path(folder, name + OBJECT)
        # The folder's name differs each time, and debug information contains it.
        flags = [*FLAGS, f"-fdebug-prefix-map={folder}=."]
        command = ["clang", *flags, "-c", f"{folder}/{name}{SOURCE}", "-o", str(result)]
        done = execute(command, COMPILE_LIMIT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode != 0:
            lines = done.stdout.decode("utf-8", "replace").replace(f"{folder}/", "").splitlines()
            said = next((line for line in lines if "error" in line), "no output")
            raise Unavailable(f"clang: exit status {done.returncode}: {said}")
        return result.read_bytes()
