# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare kernel configurations: options that differ, and the defaults that they select.

The hash in host.json says only that some options differ; the file that is captured with the layout
says which.
"""

import re
from collections.abc import Mapping, Sequence

from schedperf.model.comparison import OptionDifference
from schedperf.model.errors import InputError
from schedperf.runs.kernel_files import CONFIG, has_kernel_file, read_kernel_text
from schedperf.runs.side import Side

# "# CONFIG_X is not set" says the same as no line: both are no.
_OPTION = re.compile(r"^(CONFIG_\w+)=(.*)$", re.MULTILINE)

# What Kconfig finds out about the tools and the name of a build: no choice of who configured it.
_TOOLCHAIN = re.compile(
    r"CONFIG_(?:(?:CC|GCC|CLANG|AS|LD|LLD|RUSTC|PAHOLE|BINDGEN|RUST)_(?:LLVM_)?VERSION(?:_TEXT)?"
    r"|(?:CC|AS|LD|TOOLS|RUSTC|TOOLCHAIN)_(?:HAS|CAN|IS|SUPPORTS?)_\w+|GCC\w*_NO_\w+"
    r"|LOCALVERSION|BUILD_SALT|VERSION_SIGNATURE|\w+_SIGNING_KEY|SYSTEM_TRUSTED_KEYS)"
)

# The models of preemption that a configuration can make the default. With PREEMPT_RT the kernel
# shows another word than the option has.
_PREEMPTION = {
    "CONFIG_PREEMPT_LAZY": "lazy",
    "CONFIG_PREEMPT_VOLUNTARY": "voluntary",
    "CONFIG_PREEMPT_NONE": "none",
    "CONFIG_PREEMPT": "full",
}
_HUGE_PAGES = {
    "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS": "always",
    "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE": "madvise",
    "CONFIG_TRANSPARENT_HUGEPAGE_NEVER": "never",
}
_GOVERNORS = {
    f"CONFIG_CPU_FREQ_DEFAULT_GOV_{name.upper()}": name
    for name in ("performance", "powersave", "userspace", "ondemand", "conservative", "schedutil")
}
# These choose frequencies themselves and have two governors; any default but the first is the
# second (intel_pstate_init_cpu() and its like in amd-pstate.c).
_ACTIVE_DRIVERS = ("intel_pstate", "amd-pstate-epp")


def options_of(side: Side) -> Mapping[str, str]:
    """Return the options of a side's kernel, as in the file; empty if it was not captured."""
    boot = next(iter(side.bundle.boots), None)
    if boot is None or not has_kernel_file(side.bundle, boot, CONFIG):
        return {}
    try:
        text = read_kernel_text(side, boot, CONFIG)
    except InputError:
        # The section of the layout reports the damage.
        return {}
    return dict(_OPTION.findall(text))


def option_differences(sides: Sequence[Side]) -> tuple[OptionDifference, ...]:
    """Return what differs between base and each new side, in the order of the names.

    A side whose bundle holds no configuration, or none that can be read, differs in nothing.
    """
    base = sides[0].once(options_of)
    differences = []
    for side in sides[1:]:
        new = side.once(options_of)
        if base and new:
            differences += [
                OptionDifference(
                    side=side.name,
                    name=name,
                    base=base.get(name),
                    new=new.get(name),
                    toolchain=_TOOLCHAIN.fullmatch(name) is not None,
                )
                for name in sorted({**base, **new})
                if base.get(name) != new.get(name)
            ]
    return tuple(differences)


def default_settings(side: Side) -> Mapping[str, object]:
    """Return the values of host.json that the kernel's configuration makes the default, by path.

    Without a captured configuration nothing is known.
    """
    options = side.once(options_of)
    if not options:
        return {}
    defaults = {
        "sched.preempt": None if "CONFIG_PREEMPT_RT" in options else _chosen(options, _PREEMPTION),
        "sched.autogroup": 1 if options.get("CONFIG_SCHED_AUTOGROUP") == "y" else None,
        "sched.numa_balancing": _numa_balancing(options, side),
        "memory.thp": _chosen(options, _HUGE_PAGES),
        "cpufreq.governor": _governor(options, side),
    }
    return {path: value for path, value in defaults.items() if value is not None}


def _chosen(options: Mapping[str, str], names: Mapping[str, str]) -> str | None:
    return next((value for name, value in names.items() if options.get(name) == "y"), None)


def _numa_balancing(options: Mapping[str, str], side: Side) -> int | None:
    # As mm/mempolicy.c does it at boot: in check_numabalancing_enable.
    nodes = side.bundle.boots[0].host.topology.nodes
    if "CONFIG_NUMA_BALANCING" not in options or not nodes:
        return None
    return int("CONFIG_NUMA_BALANCING_DEFAULT_ENABLED" in options and len(nodes) > 1)


def _governor(options: Mapping[str, str], side: Side) -> str | None:
    chosen = _chosen(options, _GOVERNORS)
    if chosen is None or side.bundle.boots[0].host.cpufreq.driver not in _ACTIVE_DRIVERS:
        return chosen
    return "performance" if chosen == "performance" else "powersave"
