# SPDX-License-Identifier: GPL-2.0-or-later
"""Parse machine descriptions of other tools into the fields of host.json.

Each function returns fields by group, as named in docs/bundle.md, and omits fields that the text
does not contain. Texts are untrusted: an unexpected line is skipped.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping

from schedperf.inputs.importers.tree import Tree
from schedperf.model.errors import InputError
from schedperf.model.text import list_some
from schedperf_collectors.contract import Unavailable, parse_cpu_list
from schedperf_collectors.perf_header import (
    BadPerfData,
    Buffer,
    Cursor,
    open_section,
    read_header,
)

Fields = Mapping[str, Mapping[str, object]]

# Longest value; a description is one line.
LONGEST_VALUE = 4096
# Largest number of NUMA nodes that the kernel supports.
MOST_NODES = 1024
# Names that a message lists.
MOST_NAMES = 5

_UNAME = re.compile(
    r"Linux (?P<host>\S+) (?P<release>\S+) (?P<version>#.{1,200}?) "
    r"(?P<machine>x86_64|aarch64|ppc64le|ppc64|s390x|riscv64|loongarch64|arm\w+|i[3-6]86)\b"
)
_COMMAND_LINE = re.compile(r"(?:^|\W)(?:Kernel command line|Command line): ([^\n]+)", re.MULTILINE)
_OPTION_HZ = re.compile(r"^CONFIG_HZ=(\d{1,5})$", re.MULTILINE)
_COMPILER = re.compile(r'^CONFIG_CC_VERSION_TEXT="(.{1,200})"$', re.MULTILINE)
_MEMORY = re.compile(r"^MemTotal: +(\d{1,15}) kB", re.MULTILINE)
_GOVERNOR = re.compile(r'^[ \t]*The governor "(\S{1,40})" may decide', re.MULTILINE)
_DRIVER = re.compile(r"^[ \t]*driver: (\S{1,40})\s*$", re.MULTILINE)
_WEAKNESS = re.compile(r"vulnerabilities/(\w{1,60}):(.{1,400})")
_PREEMPTION = re.compile(r"\((\w{1,20})\)")
_DISTRO = re.compile(r'^PRETTY_NAME="?([^"\n]{1,200})"?$', re.MULTILINE)
_NODE = re.compile(r"NUMA node(\d{1,4}) CPU\(s\)")
_TUNABLE = re.compile(r"^/proc/sys/kernel/(\w{1,80}):(-?\d{1,18})$", re.MULTILINE)
_SETTINGS = {
    "sched_autogroup_enabled": "autogroup",
    "numa_balancing": "numa_balancing",
    "sched_schedstats": "schedstats",
    "sched_rt_runtime_us": "rt_runtime_us",
    "sched_cfs_bandwidth_slice_us": "cfs_bandwidth_slice_us",
}


def merge(parts: Iterable[Fields]) -> dict[str, dict[str, object]]:
    """Return the fields of all parts; later ones have precedence."""
    merged: dict[str, dict[str, object]] = {}
    for part in parts:
        for group, fields in part.items():
            merged.setdefault(group, {}).update(fields)
    return {group: fields for group, fields in merged.items() if fields}


def _present(**fields: object) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


def read_uname(text: str) -> Fields:
    """Parse ``uname -a``."""
    match = _UNAME.search(text)
    if match is None:
        return {}
    kernel = {name: match[name] for name in ("release", "version", "machine")}
    return {"kernel": kernel, "system": {"hostname": match["host"]}}


def read_config(content: bytes) -> Fields:
    """Return fields from a kernel configuration, and its checksum."""
    text = content.decode(errors="replace")
    hz, compiler = _OPTION_HZ.search(text), _COMPILER.search(text)
    kernel = _present(
        config_sha256=hashlib.sha256(content).hexdigest(), compiler=compiler and compiler[1]
    )
    return {"kernel": kernel, "sched": _present(hz=int(hz[1]) if hz else None)}


def read_lscpu(text: str) -> Fields:
    """Parse the output of ``lscpu``, indented or not."""
    lines: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon and value.strip() and len(value) <= LONGEST_VALUE:
            lines.setdefault(name.strip(), value.strip())
    family = [lines.get(name) for name in ("CPU family", "Model", "Stepping")]
    nodes = {match[1]: value for name, value in lines.items() if (match := _NODE.fullmatch(name))}
    threads = lines.get("Thread(s) per core", "")
    model = lines.get("Model name")
    return {
        "cpu": _present(
            model=model,
            vendor=lines.get("Vendor ID"),
            family_model_stepping=None if None in family else "-".join(map(str, family)),
            count_online=_count_cpus(lines.get("On-line CPU(s) list", "")),
            threads_per_core=_small(threads),
            mitigations=_weaknesses(lines) or None,
        ),
        "topology": _present(nodes=nodes if 0 < len(nodes) <= MOST_NODES else None),
        "virtualisation": _virtualisation(lines, model),
    }


def _count_cpus(listed: str) -> int | None:
    try:
        # Without this line the topology is unknown, since every machine has a CPU.
        return len(parse_cpu_list(listed)) or None
    except Unavailable:
        return None


def _small(text: str) -> int | None:
    return int(text) if re.fullmatch(r"\d{1,6}", text, re.ASCII) else None


def _weaknesses(lines: Mapping[str, str]) -> dict[str, object]:
    prefix = "Vulnerability "
    return {
        re.sub(r"\W+", "_", name.removeprefix(prefix).lower()): value
        for name, value in lines.items()
        if name.startswith(prefix)
    }


def _virtualisation(lines: Mapping[str, str], model: str | None) -> dict[str, object]:
    vendor = lines.get("Hypervisor vendor")
    if model is not None and model.startswith("QEMU TCG"):
        return {"kind": "qemu", "emulated": True, "grounds": f"the CPU model is {model}"}
    if vendor is None:
        return {}
    # A hypervisor may emulate the CPU, which lscpu does not show.
    return {"kind": vendor.lower(), "grounds": f"lscpu: hypervisor vendor {vendor}"}


def read_command_line(kernel_log: str) -> Fields:
    """Return the command line that the kernel printed at boot."""
    match = _COMMAND_LINE.search(kernel_log)
    if match is None or len(match[1]) > LONGEST_VALUE:
        return {}
    return {"kernel": {"cmdline": match[1].strip()}}


def read_mitigations(text: str) -> Fields:
    """Parse ``grep . /sys/devices/system/cpu/vulnerabilities/*``."""
    found = {match[1]: match[2].strip() for match in _WEAKNESS.finditer(text)}
    return {"cpu": {"mitigations": found}} if found else {}


def read_frequency(text: str) -> Fields:
    """Parse ``cpupower frequency-info``."""
    governor, driver = _GOVERNOR.search(text), _DRIVER.search(text)
    return {"cpufreq": _present(governor=governor and governor[1], driver=driver and driver[1])}


def read_preemption(text: str) -> Fields:
    """Parse /sys/kernel/debug/sched/preempt: the model in parentheses is active."""
    match = _PREEMPTION.search(text)
    return {"sched": {"preempt": match[1]}} if match else {}


def read_tunables(text: str) -> Fields:
    """Parse ``grep -r . /proc/sys/kernel``."""
    values = dict(_TUNABLE.findall(text))
    return {
        "sched": {ours: int(values[name]) for name, ours in _SETTINGS.items() if name in values}
    }


def read_distro(text: str) -> Fields:
    """Parse /etc/os-release."""
    match = _DISTRO.search(text)
    return {"system": {"distro": match[1]}} if match else {}


def read_memory(text: str) -> Fields:
    """Parse /proc/meminfo, which may be part of a longer text."""
    match = _MEMORY.search(text)
    return {"memory": {"total_bytes": int(match[1]) * 1024}} if match else {}


def _read_text(cursor: Cursor) -> str | None:
    text = cursor.text()
    return text if text and text.isprintable() and len(text) <= LONGEST_VALUE else None


def _read_online(cursor: Cursor) -> int:
    cursor.skip(4)  # The number of CPUs that exist.
    return cursor.u32()


# Fields of host.json by header section of perf.data (tools/perf/util/header.h in Linux).
_PERF_SECTIONS: Mapping[int, tuple[str, str, Callable[[Cursor], object]]] = {
    3: ("system", "hostname", _read_text),
    4: ("kernel", "release", _read_text),
    6: ("kernel", "machine", _read_text),
    7: ("cpu", "count_online", _read_online),
    10: ("memory", "total_bytes", lambda cursor: 1024 * cursor.u64()),
}


def refuse_several_kernels(tree: Tree, hosts: Iterable[Fields]) -> None:
    """Refuse recordings of several kernels as one side.

    :raises InputError: the hosts have several kernel releases
    """
    found = {str(host.get("kernel", {}).get("release", "")) for host in hosts}
    releases = found - {""}
    if len(releases) > 1:
        raise InputError(
            f"{tree.root}: recordings of {len(releases)} kernels "
            f"({list_some(sorted(releases), MOST_NAMES)}; expected one kernel); import each kernel "
            "separately"
        )


def read_perf_header(content: Buffer, label: str) -> Fields:
    """Return perf's description of the machine; damaged sections are left out."""
    try:
        header = read_header(content, label, fewest_events=0)
    except BadPerfData:
        return {}
    found: dict[str, dict[str, object]] = {}
    for index, number in enumerate(header.features):
        if number not in _PERF_SECTIONS:
            continue
        group, name, read = _PERF_SECTIONS[number]
        try:
            value = read(open_section(content, header.order, header.end, index, label))
        except BadPerfData:
            continue
        if value is not None:
            found.setdefault(group, {})[name] = value
    return found
