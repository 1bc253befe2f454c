# SPDX-License-Identifier: GPL-2.0-or-later
"""Collectors of one function, isolated as a recorder does it."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schedperf_collectors.machine.signals import signals
from schedperf_collectors.plugin import Capture, Collector
from schedperf_collectors.recorder.isolate import Isolated, Result

# Only a limit: a machine that is busy with other things takes its time.
LONGEST_WAIT_S = 120


class Tried(Isolated):
    """An isolated collector, led from its start to its end."""

    def begin(self) -> None:
        self.start()
        self.order()
        self.await_begun()

    def stop(self) -> Result:
        self.order()
        return self.await_end()

    def run(self) -> Result:
        self.begin()
        return self.stop()


@pytest.fixture(autouse=True)
def _caught_signals() -> Iterator[None]:
    with signals:
        yield


@pytest.fixture
def isolated(tmp_path: Path) -> Callable[..., Tried]:
    """Make an isolated collector of a function: ``isolated(collect, "run").run()``.

    One that is to hang gets little time where it hangs: ``finish_limit_s=0.5``.
    """

    def make(
        function: Callable[[Capture], object],
        scope: str = "boot",
        needs: tuple[str, ...] = (),
        *,
        attaches: bool = False,
        startup_limit_s: float = LONGEST_WAIT_S,
        finish_limit_s: float = LONGEST_WAIT_S,
    ) -> Tried:
        collector = Collector(
            name="tried",
            scope=scope,
            intrusive=False,
            outermost=False,
            default=True,
            options=(),
            needs=needs,
            package="some-package",
            cost="",
            place="tried",
            summary="",
            function=function,  # type: ignore[arg-type] # some are wrong on purpose
            attaches=attaches,
        )
        folder = tmp_path / "capture"
        folder.mkdir()
        return Tried(
            collector,
            Capture(folder, os.getpid(), {"name": "value"}),
            tmp_path / "log",
            startup_limit_s=startup_limit_s,
            finish_limit_s=finish_limit_s,
        )

    return make
