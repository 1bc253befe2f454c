# SPDX-License-Identifier: GPL-2.0-or-later
"""Read fractions from the command line: ``3%`` or ``0.03``."""

import click

LARGEST_PERCENTAGE = 0.5


class Percentage(click.ParamType["float"]):
    """A fraction given as ``3%`` or ``0.03``: above 0 and at most 0.5.

    :param what: its name in messages
    """

    name = "percentage"

    def __init__(self, what: str) -> None:
        self._what = what

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        text = str(value).strip()
        number = text.removesuffix("%")
        try:
            share = float(number) / (100.0 if number != text else 1.0)
        except ValueError:
            hint = "expected a percentage or a fraction, e.g. 3% or 0.03"
            self.fail(f"invalid {self._what} {text!r} ({hint})", param, ctx)
        if not 0.0 < share <= LARGEST_PERCENTAGE:
            hint = f"; it means {share:.0%}" if share > LARGEST_PERCENTAGE else ""
            limits = f"above 0% and at most {LARGEST_PERCENTAGE:.0%}"
            self.fail(
                f"{text!r} is out of range{hint} (expected {limits}, e.g. 3% or 0.03)", param, ctx
            )
        return share
