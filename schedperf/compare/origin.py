# SPDX-License-Identifier: GPL-2.0-or-later
"""Distinguish kernel defaults, which are part of the change, from an administrator's settings.

Where two sides ran different kernels, a setting of the scheduler may differ because the commits
between them change its default. It may also differ because someone set it on one of the machines:
on the kernel's command line, in sysctl.d or tmpfiles.d, or by writing it after boot.
"""

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from msgspec import Struct

from schedperf.model.sides import Origin

# "default": a kernel default unless something shows that it was set. "verified": a kernel default
# only if the configurations of both kernels confirm it. "": never a kernel default.
KernelDecides = Literal["", "default", "verified"]

CMDLINE = "kernel.cmdline"
SETTINGS = "settings"
# Prefixes of fields that record what an administrator set; a kernel does not change these fields,
# so they count even if their values are equal on both sides.
APPLIED_AT_BOOT = ("settings.sysctl.", "settings.tmpfiles.")
WRITTEN = "settings.written"

NOT_RECORDED = "a bundle does not record whether an administrator set the value"


class Settings(Struct, frozen=True, kw_only=True):
    """Facts about one side that show who set a field.

    :param boots: fields of each boot's host.json by dotted path, in the order of the boots; one or
        more
    :param defaults: default values from the kernel's configuration, by dotted path
    :param runs: fields that were read again after each run
    """

    side: str
    boots: Sequence[Mapping[str, object]]
    defaults: Mapping[str, object]
    runs: Sequence[Mapping[str, object]] = ()

    @property
    def fields(self) -> Mapping[str, object]:
        """Return the fields of the first boot, which is compared."""
        return self.boots[0]

    @property
    def is_recorded(self) -> bool:
        """Return whether the bundle records settings of the administrator; old versions did not."""
        # A group that could not be read is a field without a value; a group that was read has
        # fields of its own.
        return f"{SETTINGS}.tuned" in self.fields and f"{SETTINGS}.sysctl" not in self.fields

    def other_value(self, path: str) -> tuple[str, object] | None:
        """Return where a field differs from its value in the first boot, and the differing value.

        :return: "another boot" or "a run", with the first other value there; None if all are equal
        """
        value = self.fields.get(path)
        times = {"another boot": self.boots[1:], "a run": self.runs}
        others = (
            (when, fields[path])
            for when, each in times.items()
            for fields in each
            if fields.get(path) not in (None, value)
        )
        return next(others, None)


class Decision(Struct, frozen=True, kw_only=True):
    """Who decided the values of a field that differs.

    :param origin: "kernel", "owner" (an administrator) or "unknown"; None if the field has no
        kernel default, or none that the configurations confirm
    :param reason: how that is known; "" without an origin
    """

    origin: Origin | None = None
    reason: str = ""

    @property
    def is_of_kernel(self) -> bool:
        """Return whether the values differ because the kernels do, as far as is known."""
        return self.origin in ("kernel", "unknown")


def decide(
    path: str, decides: KernelDecides, set_by: Sequence[str], base: Settings, new: Settings
) -> Decision:
    """Return who set the values of a field that differs between two kernels.

    :param path: dotted path of the field in host.json
    :param decides: whether the field has a kernel default, as :data:`KernelDecides` defines it
    :param set_by: patterns of the fields of host.json that set this one; {name} is the last part of
        its path
    """
    if not decides:
        return Decision()
    reason = next(_settings_of(path, set_by, base, new), None)
    if reason is not None:
        return Decision(origin="owner", reason=f"set by an administrator ({reason})")
    if all(path in settings.defaults for settings in (base, new)):
        return Decision(origin="kernel", reason="default in each kernel's configuration")
    if decides == "verified":
        return Decision()
    if base.is_recorded and new.is_recorded:
        return Decision(
            origin="kernel", reason="default of each kernel, not set by an administrator"
        )
    return Decision(origin="unknown", reason=f"the kernels differ; {NOT_RECORDED}")


def _settings_of(path: str, set_by: Sequence[str], base: Settings, new: Settings) -> Iterator[str]:
    """Yield facts that show that the administrator of one of the machines set the field."""
    patterns = [pattern.replace("{name}", path.rpartition(".")[2]) for pattern in set_by]
    yield from _given(patterns, base, new)
    for settings in (base, new):
        yield from _written(path, patterns, settings)


def _given(patterns: Sequence[str], base: Settings, new: Settings) -> Iterator[str]:
    # The values that applied since boot.
    for name in dict.fromkeys((*base.fields, *new.fields)):
        values = base.fields.get(name), new.fields.get(name)
        is_set = name.startswith(APPLIED_AT_BOOT) or values[0] != values[1]
        # A missing parameter was not given; another missing value is unknown.
        is_known = None not in values or name.startswith((*APPLIED_AT_BOOT, f"{CMDLINE}."))
        if is_set and is_known and any(fnmatchcase(name, pattern) for pattern in patterns):
            yield f"{name} {_say(values[0])} in {base.side}, {_say(values[1])} in {new.side}"


def _written(path: str, patterns: Sequence[str], settings: Settings) -> Iterator[str]:
    value = settings.fields.get(path)
    now = f"{_say(value)} in {settings.side}"
    other = settings.other_value(path)
    if other is not None:
        when, other_value = other
        yield f"{now}, but {_say(other_value)} in {when} of the same side"
    at_boot = settings.fields.get(f"{WRITTEN}.{path}")
    if at_boot is not None:
        yield f"{now}, {_say(at_boot)} at boot"
    default = settings.defaults.get(path)
    is_other = default is not None and value not in (None, default)
    if is_other and not _has_parameter(settings, patterns):
        yield f"{now}, but {_say(default)} in the kernel configuration"


def _has_parameter(settings: Settings, patterns: Sequence[str]) -> bool:
    names = [name for name in settings.fields if name.startswith(f"{CMDLINE}.")]
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def _say(value: object) -> str:
    return "not set" if value is None else str(value)
