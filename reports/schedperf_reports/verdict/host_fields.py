"""Values of host.json in words: short enough for a table, and only what differs of long ones."""

import json
from collections.abc import Mapping
from difflib import SequenceMatcher

from schedperf.compare.comparability import REASONS_GROUP
from schedperf_reports.words.units import MISSING

# Longer texts of two sides (kernel command lines, CPU flags) are cut down to the words that differ.
LONG_TEXT_CHARACTERS = 48

# Finding what differs takes the square of the words; the CPU flags of today are below 200.
MOST_WORDS = 500


def format_value(value: object) -> str:
    """Write a JSON value for people: ``yes``, ``-``, ``0-3``, ``[[10, 20], [20, 10]]``."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def format_pair(base: object, new: object) -> tuple[str, str]:
    """Write both sides of a difference; of two long texts only the words that are not equal."""
    texts = (format_value(base), format_value(new))
    if max(map(len, texts)) <= LONG_TEXT_CHARACTERS or None in (base, new):
        return texts
    words = (texts[0].split(), texts[1].split())
    if max(map(len, words)) > MOST_WORDS:
        return texts
    opcodes = SequenceMatcher(None, *words, autojunk=False).get_opcodes()
    changed = [code for code in opcodes if code[0] != "equal"]
    if len(changed) in (0, len(opcodes)):
        return texts
    left = [" ".join(words[0][start:end]) for _, start, end, _, _ in changed]
    right = [" ".join(words[1][start:end]) for _, _, _, start, end in changed]
    return _join(left), _join(right)


def _join(parts: list[str]) -> str:
    return f"… {' … '.join(part or '(nothing)' for part in parts)} …"


def missing_reason(host: Mapping[str, object], path: str) -> str | None:
    """Return why a field is null, if the bundle says so."""
    reasons = host.get(REASONS_GROUP)
    reason = reasons.get(path) if isinstance(reasons, Mapping) else None
    return None if reason is None else str(reason)


def text_at(host: Mapping[str, object], path: str) -> str | None:
    """Return a field as text; None where it is null, absent, or the groups above it are."""
    value: object = host
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return None if value is None else format_value(value)
