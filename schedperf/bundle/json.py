"""JSON of strangers: bounded when it is read, typed when it is looked at.

::

    record = parse_object(b'{"run": 3}', "base.tar: boots/0/runs/003/run.json", RUN_LIMIT)
    record.count("run")

Whatever is wrong is a :class:`~schedperf.model.errors.BundleError` that names the member and the
key.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NoReturn, TypeVar

from schedperf.model.errors import BundleError

Value = TypeVar("Value")

# host.json, the deepest that is written, has five levels.
MAX_JSON_DEPTH = 32
# Larger integers lose digits in the float64 columns that every analysis uses.
MAX_JSON_INTEGER = 2**63
# A message shows this much of a wrong value.
_SHOWN_CHARACTERS = 40

_SURROGATES = re.compile("[\ud800-\udfff]")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _bounded(value: object, depth: int) -> object:
    """Return a parsed value, rebuilt with all limits checked and lone surrogates replaced."""
    if depth > MAX_JSON_DEPTH:
        raise ValueError(f"nested deeper than {MAX_JSON_DEPTH} levels")
    if isinstance(value, dict):
        return {_bounded(key, depth): _bounded(child, depth + 1) for key, child in value.items()}
    if isinstance(value, list):
        return [_bounded(child, depth + 1) for child in value]
    if isinstance(value, str):
        return _SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value)
    too_large = isinstance(value, float) and not math.isfinite(value)
    if too_large or (isinstance(value, int) and abs(value) >= MAX_JSON_INTEGER):
        raise ValueError("a number is too large")
    return value


def parse_json(content: bytes, where: str) -> object:
    """Parse JSON whose depth and numbers are bounded.

    :param where: bundle and member, for messages
    """
    try:
        return _bounded(json.loads(content, parse_constant=_refuse_constant), 1)
    except RecursionError:
        problem = f"nested deeper than {MAX_JSON_DEPTH} levels"
    except UnicodeDecodeError:
        problem = "not UTF-8"
    except ValueError as error:
        problem = str(error)[0].lower() + str(error)[1:]
    raise BundleError(f"{where}: not usable as JSON: {problem}") from None


@dataclass(frozen=True, slots=True)
class JsonObject:
    """One JSON object; each getter checks the type of the value it returns.

    :param where: what a message begins with
    """

    values: Mapping[str, object]
    where: str

    def wrong(self, key: str, expected: str) -> BundleError:
        """Say which key holds what instead of what is expected."""
        if key not in self.values:
            return BundleError(f"{self.where}: {key} is missing; it must be {expected}")
        shown = json.dumps(self.values[key])
        if len(shown) > _SHOWN_CHARACTERS:
            shown = f"{shown[:_SHOWN_CHARACTERS]}…"
        return BundleError(f"{self.where}: {key} is {shown}; it must be {expected}")

    def text(self, key: str) -> str:
        """Return a string."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise self.wrong(key, "a string")
        return value

    def flag(self, key: str) -> bool:
        """Return true or false."""
        value = self.values.get(key)
        if not isinstance(value, bool):
            raise self.wrong(key, "true or false")
        return value

    def integer(self, key: str) -> int:
        """Return an integer of either sign."""
        value = self.values.get(key)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.wrong(key, "an integer")
        return value

    def count(self, key: str) -> int:
        """Return an integer that is not negative."""
        value = self.integer(key)
        if value < 0:
            raise self.wrong(key, "an integer that is not negative")
        return value

    def quantity(self, key: str) -> float:
        """Return a number that is not negative."""
        value = self.values.get(key)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise self.wrong(key, "a number that is not negative")
        return float(value)

    def optional(self, get: Callable[[str], Value], key: str) -> Value | None:
        """Return ``get(key)``, or None where the key is absent or null."""
        return None if self.values.get(key) is None else get(key)

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(key, "a list of strings")
        return tuple(value)

    def counts(self, key: str) -> tuple[int, ...]:
        """Return a list of integers that are not negative."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(
            type(item) is int and item >= 0 for item in value
        ):
            raise self.wrong(key, "a list of integers that are not negative")
        return tuple(value)

    def child(self, key: str) -> "JsonObject":
        """Return an object inside this one."""
        value = self.values.get(key)
        if not isinstance(value, dict):
            raise self.wrong(key, "an object")
        return JsonObject(value, f"{self.where}: {key}")

    def children(self, key: str) -> tuple["JsonObject", ...]:
        """Return a list of objects."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            raise self.wrong(key, "a list of objects")
        return tuple(
            JsonObject(item, f"{self.where}: {key}[{place}]") for place, item in enumerate(value)
        )


def parse_object(content: bytes, where: str) -> JsonObject:
    """Parse a bounded JSON object.

    :param where: bundle and member, for messages
    """
    value = parse_json(content, where)
    if not isinstance(value, dict):
        raise BundleError(f"{where}: holds no JSON object")
    return JsonObject(value, where)
