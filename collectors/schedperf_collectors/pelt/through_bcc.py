"""PELT's programs compiled by bcc on the machine under test, which needs the kernel's headers.

Every program that may be wanted is in one text, compiled once.
"""

from __future__ import annotations

import pkgutil

from schedperf_collectors.bpf.bcc import compile_programs
from schedperf_collectors.bpf.probes import Programs
from schedperf_collectors.machine.kernel_functions import KernelFunctions
from schedperf_collectors.machine.system import System
from schedperf_collectors.pelt.programs import (
    CONTEXTS,
    EMPTY_CALL,
    FUNCTIONS,
    MARKERS,
    NEW_TASK,
    SLOTS,
    TIMED_CALL,
    TRACEPOINTS,
    probed_functions,
    role_of,
)

HEADER, SOURCE = "pelt.h", "pelt.bcc.c"
CONTEXT_OF_ROLE = {names[0]: context for context, groups in MARKERS.items() for names in groups}


def compile_pelt(system: System, kernel: KernelFunctions, sampling: int) -> Programs:
    """Compile the programs for all functions that the kernel has.

    :param sampling: the duration of one in so many calls is taken
    :raises Skipped: bcc cannot compile here
    """
    return compile_programs(system, program_text(kernel), {"SAMPLING": sampling})


def program_text(kernel: KernelFunctions) -> str:
    """Return the C text with one program for each entry, exit and tracepoint."""
    parts = [_read(SOURCE).replace(f'#include "{HEADER}"\n', _read(HEADER))]
    parts += [_pair(name) for name in probed_functions(kernel)]
    parts += [
        f"int count__{name}(void *ctx)\n"
        f"{{\n\tcount({SLOTS.index(name)}, OPEN_RUN);\n\treturn 0;\n}}\n"
        for name in TRACEPOINTS
    ]
    return "\n".join(parts)


def _read(name: str) -> str:
    data = pkgutil.get_data("schedperf_collectors.bpf", name)
    assert data is not None
    return data.decode()


def _pair(name: str) -> str:
    entry, end = _bodies(role_of(name))
    return (
        f"int kfunc__{name}(void *ctx)\n{{\n\treturn {entry};\n}}\n\n"
        f"int kretfunc__{name}(void *ctx)\n{{\n\treturn {end};\n}}\n"
    )


def _bodies(role: str) -> tuple[str, str]:
    """Return what the programs at entry and exit do."""
    if role == EMPTY_CALL:
        return "0", "0"
    if role == NEW_TASK:
        return "begin_fork()", "end_fork()"
    if role in FUNCTIONS or role == TIMED_CALL:
        timed = f"{SLOTS.index(role)}, {'OPEN_TRIAL' if role == TIMED_CALL else 'OPEN_RUN'}"
        return f"enter({timed})", f"leave({timed})"
    context = CONTEXTS.index(CONTEXT_OF_ROLE[role])
    return f"mark({context})", f"unmark({context})"
