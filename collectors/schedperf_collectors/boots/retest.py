# SPDX-License-Identifier: GPL-2.0-or-later
"""Ask the analysis when the boots of a retest (``ab --kernel --retest``) suffice.

The plan of a retest names the change that was seen, and the numbers of boots after which the
analysis looks at them. It is stored in the bundles, so that their comparison decides the same.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from schedperf_collectors.contract import format_template, point_key
from schedperf_collectors.machine.errors import RecordError
from schedperf_collectors.recorder.analysis import CONTINUE, LOST, Analysis
from schedperf_collectors.recorder.request import Request

_KERNELS = 2


@dataclass
class RetestState:
    """The retest of a recording.

    :param plan: what the bundles store, as JSON
    :param request: what else the analysis needs, as JSON
    :param looks: boots of each kernel after which the analysis looks at them, increasing
    :param looked: boots of each kernel at the last look; 0 before the first
    """

    plan: str
    request: str
    looks: list[int]
    looked: int = 0

    def is_due(self, boots: int) -> bool:
        """Return whether the next look is due after so many boots of each kernel."""
        return boots in self.looks and boots > self.looked


def check_retest(options: argparse.Namespace) -> None:
    """Check that the other options of ``ab --kernel`` suit a retest, if there is one.

    :raises RecordError: an option cannot be combined with it, or is only valid with it
    """
    if options.retest is None:
        for name in ("store", "result", "underpowered"):
            if getattr(options, name):
                raise RecordError(f"--{name}: only valid with --retest; add --retest STEP")
        return
    if options.on is None:
        raise RecordError("--retest: needs another machine, which decides; use --on ssh:HOST")
    if options.ask_fd is None:
        raise RecordError(
            "--retest: not available in the recorder of `schedperf pack`, which does not include "
            "the analysis; use `schedperf ab`"
        )
    if len(options.kernel) != _KERNELS:
        raise RecordError(
            f"--retest: {len(options.kernel)} kernels (expected two: base and new); omit the others"
        )
    refused = {"boots": "the retest decides how many", "append": "a retest needs fresh boots"}
    refused.update(dict.fromkeys(("setup", "service", "feature", "teardown"), "it has one setting"))
    for name, reason in refused.items():
        if getattr(options, name):
            raise RecordError(f"--{name}: cannot be combined with --retest ({reason}); omit it")


def begin_retest(
    analysis: Analysis, options: argparse.Namespace, requests: Sequence[Request]
) -> tuple[RetestState, int]:
    """Ask for the plan of a retest; return it, and the index of the request to record.

    :param requests: what the boots can record, at least one
    :raises RecordError: the analysis refuses, e.g. because the machine cannot reproduce the change
    """
    sources = dict(options.source)
    answer = analysis.ask(
        "retest",
        of=options.retest,
        store=options.store,
        result=options.result,
        underpowered=options.underpowered,
        jobs=[
            {
                "workload": format_template(request.template),
                "points": [point_key(dict(point)) for point in request.points],
            }
            for request in requests
        ],
        owner=str(Path(options.output).absolute()),
        kernels=[
            {"release": release, "commit": (sources.get(name) or {}).get("commit")}
            for name, release in options.kernel
        ],
    )
    if answer["answer"] != CONTINUE:
        raise RecordError(answer["text"])
    retest = RetestState(
        plan=json.dumps(answer["plan"]),
        request=json.dumps(answer["request"]),
        looks=[boots for boots, _ in answer["plan"]["looks"]],
    )
    return retest, answer["job"]


class Judge:
    """Asks the analysis about the boots of a retest.

    :param analysis: None in the recorder of ``schedperf pack``
    """

    def __init__(self, analysis: Analysis | None) -> None:
        self._analysis = analysis

    def ask(self, retest: RetestState, boots: int, bundles: Sequence[Path]) -> Mapping[str, Any]:
        """Ask whether the boots so far suffice; return the answer, LOST if there is no decision.

        :param boots: of each kernel
        :param bundles: copies here, base first; those that have no boot yet do not exist
        """
        if self._analysis is None:
            return {"answer": LOST, "text": "the recorder of `schedperf pack` has no analysis"}
        return self._analysis.ask(
            "retested",
            plan=json.loads(retest.plan),
            request=json.loads(retest.request),
            boots=boots,
            is_last=boots == retest.looks[-1],
            sides=[str(path) for path in bundles],
        )
