"""Which memory samples of two sides are of one kind, so that their rates can be compared."""

from collections.abc import Sequence

from schedperf.evidence.c2c.merge import MemoryRun

Runs = Sequence[MemoryRun]


def why_incomparable(base: Runs, new: Runs) -> str | None:
    """Say why rates of two sides' runs are different things; None where they are not."""
    observables = {run.profile.observable for run in (*base, *new)}
    if len(observables) == 1 and any(run.profile.is_text for run in (*base, *new)):
        return "the text of a report does not say the period of its samples"
    for what, values in _settings((*base, *new)).items():
        if len(values) > 1:
            listed = (_settings(side)[what] for side in (base, new))
            one, other = (
                ", ".join(sorted("none" if one is None else str(one) for one in some))
                for some in listed
            )
            where = f"{one} in base, {other} in new" if one != other else f"{one}, in both sides"
            return f"{what} differ between runs: {where}"
    if base[0].profile.period is None:
        return "the period is not fixed, so a sample stands for no known number of accesses"
    if any(run.operations is None for run in (*base, *new)):
        return "how many operations of the benchmark a run did is not known"
    return None


def _settings(runs: Runs) -> dict[str, set[object]]:
    profiles = [run.profile for run in runs]
    return {
        "observables": {profile.observable for profile in profiles},
        "events": {" and ".join(sorted(profile.event)) for profile in profiles},
        "periods": {profile.period for profile in profiles},
        "least latencies": {profile.ldlat for profile in profiles},
        "line sizes": {profile.line_bytes for profile in profiles},
        "operations": {run.operations.unit for run in runs if run.operations is not None},
    }
