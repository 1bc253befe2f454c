# SPDX-License-Identifier: GPL-2.0-or-later
"""Read what a maintainer asks for.

::

    name = "place-lag"
    sentence = "Does PLACE_LAG make hackbench slower on your machine, too?"
    reply_to = "sched-list@example.org"
    kernels = ["6.11*", "6.12*"]
    features = ["PLACE_LAG"]
    seconds_per_run = 5
    run = ["hackbench", "-l", "500", "-g", "{groups}"]
    points = {groups = [1, 4]}
    runs = 5

The keys of the workload are those of a job of ``ab --kernel --jobs``.
"""

from __future__ import annotations

import difflib
import json
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from schedperf_collectors.machine.errors import RecordError, printable
from schedperf_collectors.recorder.jobs import KEYS, Job, parse_jobs
from schedperf_collectors.recorder.options import FEATURE
from schedperf_collectors.redaction.rules import Rules

# The file in the packed recorder with the request and the rules of redaction.
PACKED = "ask.json"
PACKAGE = "schedperf_collectors.request"

MOST_KERNELS = 4
MOST_FEATURES = 3
LONGEST_SENTENCE = 300
LONGEST_REPLY_TO = 200
MOST_SECONDS = 86_400

_PATTERN = re.compile(r"[A-Za-z0-9._+*?~-]{1,64}\Z")
_EXAMPLES = {
    "sentence": f"a text of at most {LONGEST_SENTENCE} letters that says what you want to know",
    "reply_to": "where the answer goes, e.g. an address",
    "kernels": f'a list of 1 to {MOST_KERNELS} releases, e.g. ["6.11*", "6.12*"]',
    "features": f'a list of at most {MOST_FEATURES} scheduler features, e.g. ["PLACE_LAG"]',
    "seconds_per_run": "the duration of one run in seconds, e.g. 5",
}


@dataclass(frozen=True)
class Ask:
    """What a maintainer asks for.

    :param sentence: the question
    :param reply_to: where the answer goes; None if not stated
    :param kernels: patterns of releases; a different kernel is recorded for each
    :param features: scheduler features that are switched off and on
    :param seconds: duration of one run, as the maintainer states it; None if not stated
    :param job: the workload, whose name is that of the request
    """

    sentence: str
    reply_to: str | None
    kernels: tuple[str, ...]
    features: tuple[str, ...]
    seconds: float | None
    job: Job

    @property
    def name(self) -> str:
        """Return the name of the request, which names its files."""
        return self.job.name


def read_packed() -> tuple[Ask, Rules] | None:
    """Return the request in this program and the rules of redaction; None without a request."""
    try:
        content = pkgutil.get_data(PACKAGE, PACKED)
    except OSError:
        return None
    if content is None:
        return None
    tree = json.loads(content)
    rules = tree["rules"]
    return parse_ask(tree["ask"], "the request"), Rules(
        host=tuple(rules["host"]),
        kernel_parameters=frozenset(rules["kernel_parameters"]),
        public_folders=tuple(rules["public_folders"]),
        public_servers=frozenset(rules["public_servers"]),
        common_names=frozenset(rules["common_names"]),
    )


def pack(tree: Mapping[str, Any], rules: Rules) -> bytes:
    """Return the content of the file from which :func:`read_packed` reads.

    :param tree: the tables of a valid request
    """
    lists = {
        "host": list(rules.host),
        "kernel_parameters": sorted(rules.kernel_parameters),
        "public_folders": list(rules.public_folders),
        "public_servers": sorted(rules.public_servers),
        "common_names": sorted(rules.common_names),
    }
    return json.dumps({"ask": tree, "rules": lists}, indent=1).encode()


def parse_ask(tree: Mapping[str, Any], where: str) -> Ask:
    """Return the request of a file.

    :param where: name of the file, for messages
    :raises RecordError: a key is unknown or missing, or a value is invalid
    """
    known = (*_EXAMPLES, *KEYS)
    for key, value in tree.items():
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1) or known
            shown = printable(key)[:64]
            raise RecordError(
                f"{where}: {shown}: unknown key (expected {', '.join(near)}); edit the file"
            )
        if not all(text.isprintable() for text in _texts(value)):
            raise RecordError(f"{where}: {key}: contains control characters; edit the file")
    sentence = _text(tree, "sentence", LONGEST_SENTENCE, where)
    if sentence is None:
        raise _invalid(where, "sentence")
    [job] = parse_jobs({"job": [{key: tree[key] for key in tree if key in KEYS}]}, where)
    return Ask(
        sentence=sentence,
        reply_to=_text(tree, "reply_to", LONGEST_REPLY_TO, where),
        kernels=_names(tree.get("kernels", ["*", "*"]), "kernels", _PATTERN, MOST_KERNELS, where),
        features=_names(tree.get("features", []), "features", FEATURE, MOST_FEATURES, where),
        seconds=_seconds(tree, where),
        job=job,
    )


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield str(key)
            yield from _texts(item)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)


def _text(tree: Mapping[str, Any], key: str, longest: int, where: str) -> str | None:
    value = tree.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > longest:
        raise _invalid(where, key)
    return value


def _names(
    value: object, key: str, pattern: re.Pattern[str], most: int, where: str
) -> tuple[str, ...]:
    least = 1 if key == "kernels" else 0
    if not isinstance(value, list) or not least <= len(value) <= most:
        raise _invalid(where, key)
    if not all(isinstance(name, str) and pattern.match(name) for name in value):
        raise _invalid(where, key)
    if key == "features" and len(set(value)) < len(value):
        raise RecordError(f"{where}: {key}: name given twice; edit the file")
    return tuple(value)


def _seconds(tree: Mapping[str, Any], where: str) -> float | None:
    value = tree.get("seconds_per_run")
    if value is None:
        return None
    if type(value) not in (int, float) or not 0 < value <= MOST_SECONDS:
        raise _invalid(where, "seconds_per_run")
    return float(value)


def _invalid(where: str, key: str) -> RecordError:
    return RecordError(f"{where}: {key}: expected {_EXAMPLES[key]}; edit the file")
