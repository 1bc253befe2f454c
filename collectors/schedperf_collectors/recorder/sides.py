# SPDX-License-Identifier: GPL-2.0-or-later
"""Build the sides of ``ab`` (names, setups and bundles) from its options."""

from __future__ import annotations

import argparse
import difflib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from schedperf_collectors.machine.errors import RecordError, explain
from schedperf_collectors.recorder.options import PROBE_OUTPUT
from schedperf_collectors.recorder.places import find_session_places
from schedperf_collectors.recorder.service import read_service
from schedperf_collectors.recorder.settings import Setting

# Since v5.13 ("sched: Move SCHED_DEBUG sysctl to debugfs"), and before.
FEATURES = (Path("/sys/kernel/debug/sched/features"), Path("/sys/kernel/debug/sched_features"))

_OFF = "NO_"
_TWO = ("base", "new")
_FEWEST = 2
# Features that a message names.
_MOST_NAMED = 3


def read_settings(options: argparse.Namespace) -> list[Setting]:
    """Return the sides, base first.

    :param options: the parsed options of ``ab``
    :raises RecordError: the options contradict each other, name fewer than two sides or no output
        file, or the program of a service cannot be run
    """
    if options.probe is not None:
        return _of_places(options)
    if options.feature is not None:
        others = [*_of_pair(options), *_given(options, "setup"), *_given(options, "service")]
        _refuse_mixture(options, "--feature", others)
        return _named(options, _feature_setups(options.feature))
    if options.setup:
        _refuse_mixture(options, "--setup", _of_pair(options))
        return _named(options, options.setup)
    if _names_sides(options):
        _refuse_mixture(options, "--service", _of_pair(options))
        return _named(options, [(name, "") for name in _sides_of_services(options.service)])
    for name, _ in options.teardown:
        raise RecordError(f"--teardown {name}: no side of this name; add --setup {name}=CMD")
    services = _unique("--service", options.service)
    return [
        Setting(
            name=side,
            path=_path(options, side),
            output=options.output,
            label=getattr(options, f"{side}_label"),
            setup=getattr(options, f"{side}_setup"),
            teardown=getattr(options, f"{side}_teardown"),
            service=read_service(side, services.get(side, "")),
        )
        for side in _TWO
    ]


def _of_places(options: argparse.Namespace) -> list[Setting]:
    """Return a side per place of ``--probe``, that of this shell first.

    :raises RecordError: another option names sides, or there is only one place
    """
    names = ("setup", "teardown", "service", "feature")
    others = [word for name in names for word in _given(options, name)]
    _refuse_mixture(options, "--probe", [*_of_pair(options), *others])
    places = find_session_places()
    if len(places.tried) < _FEWEST:
        raise RecordError(
            f"--probe {options.probe}: this shell's place is the only one; not possible here: "
            f"{'; '.join(places.not_tried)}"
        )
    output = options.output or PROBE_OUTPUT
    chosen = argparse.Namespace(**{**vars(options), "output": output})
    return _named(chosen, [(place.name, place.setup) for place in places.tried])


def _names_sides(options: argparse.Namespace) -> bool:
    """Return whether --service names the sides, which otherwise are base and new.

    Settings of several kernels always have names.
    """
    is_of_kernel = bool(options.kernel) or "kernel" in dict(options.factor)
    return any(is_of_kernel or name not in _TWO for name, _ in options.service)


def _sides_of_services(services: Sequence[tuple[str, str]]) -> list[str]:
    """Return the names of the sides.

    A single service is compared with the machine as it is: the side "base", or "none" if the
    service itself has the name "base".

    :raises RecordError: no side has a service
    """
    names = [name for name, _ in services]
    if not any(command.strip() for _, command in services):
        raise RecordError(
            f"--service {names[0]}: empty command on all sides (expected a program, e.g. "
            f"{names[0]}=scx_lavd); give the program that the side is about"
        )
    return names if len(names) > 1 else ["base" if names != ["base"] else "none", *names]


def of_kernel(settings: Sequence[Setting], kernel: str | None) -> list[Setting]:
    """Return the settings as sides of one kernel of a kernel x setting design.

    :param kernel: name of the kernel; None without such a design
    """
    if kernel is None:
        return list(settings)
    return [
        replace(setting, name=f"{kernel}-{setting.name}", label=f"{kernel}-{setting.name}")
        for setting in settings
    ]


def check_feature(name: str | None) -> None:
    """Reject a scheduler feature that the running kernel lacks or does not list.

    :param name: feature; None if not given
    :raises RecordError: the kernel lacks the feature, or does not list its features
    """
    if name is None:
        return
    path = _features_file()
    try:
        words = path.read_text(encoding="ascii", errors="replace").split()
    except OSError as error:
        raise RecordError(
            f"--feature {name}: {path}: {explain(error)}; run as root, with debugfs mounted "
            "(`mount -t debugfs none /sys/kernel/debug`) and without kernel lockdown"
        ) from error
    known = [_name_feature(word) for word in words]
    if name not in known:
        near = difflib.get_close_matches(name, known, n=_MOST_NAMED) or known[:_MOST_NAMED]
        raise RecordError(
            f"--feature {name}: this kernel has no such scheduler feature (expected one of "
            f"{path}, e.g. {', '.join(near)}); give another name"
        )


def _name_feature(word: str) -> str:
    return word.removeprefix(_OFF)


def _features_file() -> Path:
    return next((path for path in FEATURES if path.exists()), FEATURES[0])


def _feature_setups(name: str) -> list[tuple[str, str]]:
    path = shlex.quote(str(_features_file()))
    return [(word, f"echo {word} > {path}") for word in (f"{_OFF}{name}", name)]


def _named(options: argparse.Namespace, setups: Sequence[tuple[str, str]]) -> list[Setting]:
    commands = _unique("--setup" if options.setup else "--service", setups)
    if len(commands) < _FEWEST:
        raise RecordError(
            f"--setup {setups[0][0]}: one side given (expected two or more); add another "
            "--setup NAME=CMD, e.g. --setup off= for the machine as it is"
        )
    teardowns = _unique("--teardown", options.teardown)
    services = _unique("--service", options.service)
    for option, name in (
        *(("--teardown", name) for name in teardowns),
        *(("--service", name) for name in services),
    ):
        if name not in commands:
            raise RecordError(
                f"{option} {name}: no side of this name (expected {', '.join(commands)}); add "
                f"--setup {name}=CMD"
            )
    return [
        Setting(
            name=name,
            path=_path(options, name),
            output=options.output,
            label=name,
            setup=setup,
            teardown=teardowns.get(name, ""),
            service=read_service(name, services.get(name, "")),
            level=name,
        )
        for name, setup in commands.items()
    ]


def _unique(option: str, given: Sequence[tuple[str, str]]) -> Mapping[str, str]:
    commands: dict[str, str] = {}
    for name, command in given:
        if name in commands:
            raise RecordError(f"{option} {name}: side given twice; use different names")
        commands[name] = command
    return commands


def _of_pair(options: argparse.Namespace) -> list[str]:
    names = [f"{side}{part}" for side in _TWO for part in ("", "_setup", "_teardown", "_label")]
    return [word for name in names for word in _given(options, name)]


def _given(options: argparse.Namespace, name: str) -> list[str]:
    return ["--" + name.replace("_", "-")] if getattr(options, name) else []


def _refuse_mixture(options: argparse.Namespace, option: str, others: Sequence[str]) -> None:
    if options.feature is not None and options.teardown:
        others = [*others, "--teardown"]
    if others:
        raise RecordError(f"{option}: cannot be combined with {others[0]}; omit one of them")


def _path(options: argparse.Namespace, side: str) -> Path:
    """Return the file to which ``ab`` writes a side.

    :raises RecordError: none is given, or both -o and a file
    """
    output: str | None = options.output
    named: Path | None = getattr(options, side) if side in _TWO else None
    if (output is None) == (named is None):
        problem = "no output file" if output is None else f"both -o and --{side} given"
        needed = "give either -o PREFIX, or both --base FILE and --new FILE"
        if options.setup or options.feature or _names_sides(options):
            needed = "give -o PREFIX"
        raise RecordError(f"{problem}; {needed}")
    if named is not None:
        return named
    assert output is not None
    if output.endswith("/") or Path(output).is_dir():
        return Path(output, f"{side}.tar")
    return Path(f"{output}-{side}.tar")
