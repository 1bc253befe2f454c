"""Which workload at which point of bundles ``schedperf profile`` looks at."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schedperf.bundle.open import Bundle, Run
from schedperf.model.errors import InputError
from schedperf.model.text import clean_line


@dataclass(frozen=True, kw_only=True, slots=True, order=True)
class Point:
    """A workload and its parameters."""

    workload: str
    key: str

    @classmethod
    def of(cls, run: Run) -> "Point":
        """Return where a run was made."""
        return cls(workload=run.workload, key=run.point_key)

    def __str__(self) -> str:
        return clean_line(f"{self.workload} at {self.key}" if self.key else self.workload)

    def is_called(self, name: str) -> bool:
        """Say whether a user may mean it: by the workload, by the parameters, or by both."""
        return bool(name) and name in {str(self), clean_line(self.workload), clean_line(self.key)}


def choose_point(bundles: Sequence[Bundle], wanted: str | None) -> tuple[Point, str | None]:
    """Return the point that is looked at, and a sentence where there are others like it.

    :param wanted: as the user named it; None: the first that all bundles have
    :raises InputError: a bundle has no profile, or there is no such point
    """
    found = {bundle: _points_of(bundle) for bundle in bundles}
    common = [
        point for point in found[bundles[0]] if all(point in points for points in found.values())
    ]
    chosen = [point for point in common if wanted is None or point.is_called(wanted)]
    if not chosen:
        raise InputError(_why_none(found, common, wanted))
    if len(chosen) == 1:
        return chosen[0], None
    others = _list(chosen[1:])
    return chosen[0], f"{chosen[0]}: one of {len(chosen)} points; --point takes {others}"


def _points_of(bundle: Bundle) -> dict[Point, None]:
    # Imported here so that one file is shown without what bundles and comparisons need.
    from schedperf.evidence.profile.sources import FOLDER, ProfileReader  # noqa: PLC0415

    reader = ProfileReader(bundle, lambda _: None)
    points = {Point.of(run): None for _, run in reader.runs()}
    if points:
        return points
    why = reader.why_not_recorded()
    raise InputError(f"{bundle.path}: {why}; record with --with {FOLDER}")


def _why_none(
    found: Mapping[Bundle, Iterable[Point]], common: Sequence[Point], wanted: str | None
) -> str:
    if wanted is not None and common:
        where = " and ".join(str(bundle.path) for bundle in found)
        return f"{where}: no profile at point {wanted!r}; --point takes {_list(common)}"
    each = "; ".join(f"{bundle.path} has {_list(points)}" for bundle, points in found.items())
    return f"no workload at one point that both have a profile of: {each}; record the same of both"


def _list(points: Iterable[Point]) -> str:
    return ", ".join(f"'{point}'" for point in points)
