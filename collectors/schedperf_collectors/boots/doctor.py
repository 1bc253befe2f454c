# SPDX-License-Identifier: GPL-2.0-or-later
"""``doctor --boot``: check that this machine can boot kernels alternately."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from schedperf_collectors import __version__
from schedperf_collectors.boots.call import call_here, check_name
from schedperf_collectors.boots.examine import AUTO, Examination, examine
from schedperf_collectors.boots.proof import (
    ARMED,
    PROVED,
    Machine,
    Proof,
    conclude,
    prepare,
    this_machine,
)
from schedperf_collectors.machine.errors import RecordError

SCHEMA = "schedperf/doctor-boot/1"


@dataclass(frozen=True)
class Asked:
    """The options of the command.

    :param hook: a hook, or ``auto``
    :param releases: releases of the kernels to check; empty for the kernel that boots by default
    :param prove: whether to set a one-shot entry, after which the user reboots
    :param as_json: whether to print JSON instead of text
    """

    hook: str
    releases: Sequence[str]
    prove: bool
    as_json: bool


def doctor_boot(asked: Asked) -> Iterator[str]:
    """Yield the report, as one text.

    :raises RecordError: after the report: a check failed, or the last proof with this hook failed;
        before it: the hook or a release is invalid, no hook can be used, or an entry to prove could
        not be set
    """
    if asked.hook != AUTO:
        check_name(asked.hook)
    machine = this_machine()
    proof = conclude(call_here, machine)
    examination = examine(call_here, asked.hook, asked.releases, machine.release)
    if asked.prove and not examination.problems:
        proof = _prove(examination, machine)
    yield to_json(examination, proof) if asked.as_json else format_text(examination, proof, machine)
    problems = examination.problems
    if proof is not None and proof.hook == examination.hook and proof.problem() is not None:
        problems += 1
    if problems:
        refused = "; no one-shot entry was set" if asked.prove else ""
        raise RecordError(
            f"--boot {examination.hook}: {problems} failed check{'s' * (problems > 1)}{refused}; "
            "fix them as listed above",
            1,
        )


def _prove(examination: Examination, machine: Machine) -> Proof:
    releases = [kernel.release for kernel in examination.kernels]
    if len(releases) > 1:
        raise RecordError(f"--prove: {len(releases)} kernels given; give one --kernel REL")
    return prepare(call_here, examination.hook, releases[0], machine)


def to_json(examination: Examination, proof: Proof | None) -> str:
    """Return the checks as JSON.

    :param proof: None if none was tried
    """
    record = {
        "schema": SCHEMA,
        "tool_version": __version__,
        "hook": examination.hook,
        "rejected": [{"hook": hook, "reason": why} for hook, why in examination.rejected],
        "default": examination.default,
        "armed": examination.armed,
        "kernels": [asdict(kernel) for kernel in examination.kernels],
        "proof": None if proof is None else asdict(proof),
    }
    return json.dumps(record, indent=1) + "\n"


def format_text(examination: Examination, proof: Proof | None, machine: Machine) -> str:
    """Return the checks as text, one line each.

    :param proof: None if none was tried
    :param machine: the running system
    """
    default = examination.default or "unknown"
    lines = [f"boot hook {examination.hook}; default kernel {default}"]
    lines += [f"not used: {hook}: {reason}" for hook, reason in examination.rejected]
    for kernel in examination.kernels:
        lines.append(f"{kernel.release}:")
        lines += [f"  ok      {text}" for text in kernel.passed]
        lines += [
            f"  failed  {'; fix: '.join(filter(None, (problem.text, problem.remedy)))}"
            for problem in kernel.problems
        ]
    lines.append(f"one-shot entry: {_describe_proof(proof, machine)}")
    return "\n".join(lines) + "\n"


def _describe_proof(proof: Proof | None, machine: Machine) -> str:
    if proof is None:
        return "not tested by a boot; run `schedperf doctor --boot --prove` as root"
    if proof.state == ARMED and proof.boot_id == machine.boot_id:
        return (
            f"{proof.release} is set for the next boot ({proof.entry}); "
            "reboot, and run `schedperf doctor --boot` again"
        )
    problem = proof.problem()
    if problem is not None:
        return f"failed: {problem.text}; fix: {problem.remedy}"
    assert proof.state == PROVED
    return f"consumed by the boot of {proof.release} ({proof.hook})"
