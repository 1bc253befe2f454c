# SPDX-License-Identifier: GPL-2.0-or-later
"""Compare kernel configurations: options that differ, and the defaults that they select.

The hash in host.json shows only that some options differ; the configuration that is captured with
the layout shows which.
"""

import re
from collections.abc import Mapping, Sequence

from schedperf.inputs.kernel_files import CONFIG, has_kernel_file, read_kernel_text
from schedperf.inputs.side import Side
from schedperf.model.errors import InputError
from schedperf.model.sides import OptionDifference

# "# CONFIG_X is not set" means the same as a missing line: no.
_OPTION = re.compile(r"^(CONFIG_\w+)=(.*)$", re.MULTILINE)

# Options that Kconfig derives from the toolchain and the name of the build; users do not set them.
_TOOLCHAIN = re.compile(
    r"CONFIG_(?:(?:CC|GCC|CLANG|AS|LD|LLD|RUSTC|PAHOLE|BINDGEN|RUST)_(?:LLVM_)?VERSION(?:_TEXT)?"
    r"|(?:CC|AS|LD|TOOLS|RUSTC|TOOLCHAIN)_(?:HAS|CAN|IS|SUPPORTS?)_\w+|GCC\w*_NO_\w+"
    r"|LOCALVERSION|BUILD_SALT|VERSION_SIGNATURE|\w+_SIGNING_KEY|SYSTEM_TRUSTED_KEYS)"
)

# The preemption models that a configuration can make the default. With PREEMPT_RT, the kernel
# reports another word than the option's name.
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
# These drivers choose frequencies themselves and have two governors; any default except the first
# selects the second (intel_pstate_init_cpu() and its counterpart in amd-pstate.c).
_ACTIVE_DRIVERS = ("intel_pstate", "amd-pstate-epp")


def options_of(side: Side) -> Mapping[str, str]:
    """Return the options that the configuration of a side's first boot sets, as in the file.

    The result is empty if the file was not captured or cannot be read.
    """
    boot = next(iter(side.bundle.boots), None)
    if boot is None or not has_kernel_file(side.bundle, boot, CONFIG):
        return {}
    try:
        text = read_kernel_text(side, boot, CONFIG)
    except InputError:
        # The layout section reports the damage.
        return {}
    return dict(_OPTION.findall(text))


def option_differences(sides: Sequence[Side]) -> tuple[OptionDifference, ...]:
    """Return the options that differ between base and each new side, by side, sorted by name.

    A side has no differences if its bundle, or that of base, lacks a readable configuration.
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

    Fields whose default the configuration does not decide are left out. The result is empty if no
    configuration was captured.
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
    # As in check_numabalancing_enable() of mm/mempolicy.c, which runs at boot.
    nodes = side.bundle.boots[0].host.topology.nodes
    if "CONFIG_NUMA_BALANCING" not in options or not nodes:
        return None
    return int("CONFIG_NUMA_BALANCING_DEFAULT_ENABLED" in options and len(nodes) > 1)


def _governor(options: Mapping[str, str], side: Side) -> str | None:
    chosen = _chosen(options, _GOVERNORS)
    if chosen is None or side.bundle.boots[0].host.cpufreq.driver not in _ACTIVE_DRIVERS:
        return chosen
    return "performance" if chosen == "performance" else "powersave"
