# SPDX-License-Identifier: GPL-2.0-or-later
"""Check ``balance``: a history finds regressions and improvements about equally often.

If a process finds 17 regressions and no improvement, it reports noise. Steps with one cause count
once, and A/A nights can show that the process is not biased.
"""

from schedperf.history.questions.balance import Balance
from schedperf.publish.culprit.record import Check
from schedperf.publish.mail.checks.context import Context
from schedperf_reports.words.rows import count_of


def check(context: Context) -> Check:
    """Fail as :func:`check_balance`; pass without a history."""
    return Check.of("balance") if context.balance is None else check_balance(context.balance)


def check_balance(balance: Balance) -> Check:
    """Fail for p < 0.01 among the last 50 causes, unless A/A nights clear it."""
    return Check.of("balance", describe(balance) if balance.is_suspicious else None)


def describe(balance: Balance) -> str:
    """Count regressions and improvements among the last 50 causes, in words.

    If a two-sided sign test has p < 0.01, the text advises A/A nights, or states what they show.
    """
    if not balance.worse + balance.better:
        return "no change found"
    worse = count_of(balance.worse, "regression")
    better = count_of(balance.better, "improvement")
    text = f"{worse} and {better} among the last changes found"
    if balance.is_suspicious:
        return f"{text} (sign test, p = {balance.p:.1g}): run A/A nights{_aa(balance)}"
    return f"{text}{_aa(balance)}" if balance.aa_worse + balance.aa_better else text


def _aa(balance: Balance) -> str:
    total = balance.aa_worse + balance.aa_better
    if not total:
        return ", the same kernel on both sides"
    nights = count_of(total, "A/A night")
    return f"; in {nights}, new is worse in {balance.aa_worse} and better in {balance.aa_better}"
