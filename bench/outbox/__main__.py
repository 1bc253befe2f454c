# SPDX-License-Identifier: GPL-2.0-or-later
"""Prove that kills send no mail twice and lose none: ``python -m bench.outbox``.

``schedperf mail send`` delivers to a real SMTP server and is killed before each of its system calls
from the first rename to its exit. It is then run again, sometimes killed again, and finally run
without kills after the archive's delay. The archive gets each delivered mail after a random part of
the delay. In every fifth trial the archive gets no newer message; the mail must then be sent, or
stay in the state ``sending`` until a person decides.
"""

import argparse
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from bench.outbox.trial import Result, Trial, is_in_delivery, running_server

_MOST_KILLS = 3
_WITHOUT_NEWER = 5


def judge(result: Result, *, has_newer: bool) -> str | None:
    """Return what is wrong with the end of a trial; None if nothing is.

    :param has_newer: whether the archive got a newer message
    """
    if result.copies > 1:
        return "sent twice"
    if result.state == "sent":
        return None if result.copies == 1 else "lost"
    if result.state == "sending" and not has_newer:
        return None
    return f"left in {result.state}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="bench.outbox", description=__doc__)
    parser.add_argument("--each", type=int, default=5, help="kills per system call [default: 5]")
    parser.add_argument("--step", type=int, default=1, help="try each STEP-th call [default: 1]")
    parser.add_argument(
        "--delivery", type=int, default=200, help="kills during the delivery [default: 200]"
    )
    parser.add_argument("--seed", type=int, default=20, help="[default: 20]")
    options = parser.parse_args(arguments)
    source = random.Random(options.seed)  # noqa: S311 # a simulation
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder, running_server(Path(folder) / "server") as server:

        def attempt(kill_before: int | None, most_kills: int) -> Result:
            number = counts["trials"]
            counts["trials"] += 1
            has_newer = number % _WITHOUT_NEWER != 0
            trial = Trial(Path(folder) / str(number), server, source, has_newer=has_newer)
            result = trial.run(kill_before, most_kills)
            counts["kills"] += result.kills
            counts["kills during the delivery"] += is_in_delivery(result.first)
            counts[f"ended in {result.state}, newer message {has_newer}"] += 1
            if problem := judge(result, has_newer=has_newer):
                counts["wrong"] += 1
                print(f"killed before call {kill_before}: {problem}: {result.first.calls[-3:]}")
            return result

        # How many calls there are depends a little on when the server answers.
        reference = min((attempt(None, 0).first.calls for _ in range(5)), key=len)
        fewest = options.each
        for number in range(0, len(reference), options.step):
            killed = sum(attempt(number, _MOST_KILLS).first.killed for _ in range(options.each))
            fewest = min(fewest, killed)
        first = reference.index("connect") + 1
        while counts["kills during the delivery"] < options.delivery:
            attempt(source.randrange(first, len(reference)), _MOST_KILLS)
    print(f"system calls from the first rename to exit: {len(reference)}")
    print(f"fewest kills per system call: {fewest}")
    for name, count in sorted(counts.items()):
        print(f"{name}: {count}")
    return int(counts["wrong"] > 0 or fewest < options.each)


if __name__ == "__main__":
    sys.exit(main())
