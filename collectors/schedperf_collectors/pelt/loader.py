"""Which loader PELT's programs come through: libbpf, else bcc, else none.

libbpf loads an object that was compiled ahead, in less than a second. bcc compiles on the machine
under test and needs the kernel's headers; it is used where libbpf cannot load the object, or where
the user asks for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass

from schedperf_collectors.bpf.probes import NoPrograms, Programs, as_root
from schedperf_collectors.contract import Unavailable
from schedperf_collectors.machine.btf import MAGIC as BTF_MAGIC
from schedperf_collectors.machine.errors import explain
from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import Tried
from schedperf_collectors.pelt.through_bcc import compile_pelt
from schedperf_collectors.pelt.through_libbpf import load_pelt
from schedperf_collectors.plugin import Skipped

AUTO = "auto"
TYPES = "/sys/kernel/btf/vmlinux"
LOADERS = {"libbpf": load_pelt, "bcc": compile_pelt}


@dataclass(frozen=True)
class LoadedPrograms:
    """The programs, and how they were loaded.

    :param asked: AUTO, or the loader that the user asked for
    :param tried: of each loader why it cannot be used, in that order; None: it is the one in use
    :param no_types: what cannot be had because the kernel has no types; None: it has them
    """

    programs: Programs
    asked: str
    tried: Tried
    no_types: str | None = None

    @property
    def loader(self) -> str | None:
        """Return the loader in use; None: no program can be loaded."""
        return next((name for name, reason in self.tried.items() if reason is None), None)

    def describe(self) -> Mapping[str, object]:
        """Return what pelt.json has under "loader"."""
        return {
            "used": self.loader,
            "asked": self.asked,
            "tried": self.tried,
            "no_types": self.no_types,
        }

    def notes(self) -> list[str]:
        """Say that another loader than the preferred one is in use, and why."""
        refused = {name: reason for name, reason in self.tried.items() if reason is not None}
        if self.loader is None or not refused:
            return []
        return [f"{self.loader} loaded the programs; {_say(refused)}"]


def load_programs(
    system: System, kernel: KernelFunctions, sampling: int, asked: str
) -> LoadedPrograms:
    """Load the programs through the first loader that works, or the one that was asked for.

    :param sampling: the duration of one in so many calls is taken
    :param asked: AUTO or one of LOADERS
    """
    no_types = why_no_types(system)
    tried: Tried = {}
    remedies: list[str] = []
    for name in LOADERS if asked == AUTO else [asked]:
        programs = _load(name, system, kernel, sampling)
        if not isinstance(programs, NoPrograms):
            tried[name] = None
            return LoadedPrograms(programs, asked, tried, no_types)
        tried[name] = programs.why.reason
        remedies.append(programs.why.remedy)
    reason = _say(tried) if asked == AUTO else str(tried[asked])
    remedy = next(filter(None, remedies), "")
    return LoadedPrograms(NoPrograms(Skipped(reason, remedy)), asked, tried, no_types)


def why_no_types(system: System) -> str | None:
    """Say what cannot be had where the kernel has no types (BTF); None: it has them."""
    try:
        with system.path(TYPES).open("rb") as file:
            magic = int.from_bytes(file.read(2), sys.byteorder)
    except OSError as error:
        reason = explain(error)
    else:
        reason = "no types in it"
        if magic == BTF_MAGIC:
            return None
    return f"{TYPES}: {reason}: no fentry, no fexit, and no members of types such as cfs_rq->rq"


def _load(name: str, system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    try:
        return LOADERS[name](system, kernel, sampling)
    except Unavailable as error:
        return NoPrograms(Skipped(error.reason, as_root()))
    except Skipped as why:
        return NoPrograms(why)


def _say(refused: Mapping[str, str | None]) -> str:
    return "; ".join(f"{name}: {reason}" for name, reason in refused.items())
