# SPDX-License-Identifier: GPL-2.0-or-later
"""Answer the questions of a recorder, in a thread that loads the analysis for the first one."""

import contextlib
import json
import os
import threading
from collections.abc import Iterator


@contextlib.contextmanager
def answering() -> Iterator[tuple[int, int]]:
    """Answer the recorder's questions in a thread; wait for the thread at the end of the block.

    :return: the file descriptors for the recorder: to read answers from, and to write questions to
    """
    asked, ask = os.pipe()
    read_fd, tell = os.pipe()
    thread = threading.Thread(target=_serve, args=(asked, tell))
    thread.start()
    try:
        yield read_fd, ask
    finally:
        # The recorder has ended and closed its descriptors, so the thread reads end of file.
        os.close(ask)
        os.close(read_fd)
        thread.join()


def _serve(asked: int, tell: int) -> None:
    judge = None
    with os.fdopen(asked, encoding="utf-8") as questions, os.fdopen(tell, "wb", 0) as answers:
        for line in questions:
            if judge is None:
                # Imported here: most commands of the recorder ask nothing.
                from schedperf.commands._judge import Judge  # noqa: PLC0415

                judge = Judge()
            # A recorder that was stopped reads no answer, and one that was killed may leave half
            # a question.
            with contextlib.suppress(BrokenPipeError, json.JSONDecodeError):
                answers.write(json.dumps(judge.answer(json.loads(line))).encode() + b"\n")
    if judge is not None:
        judge.close()
