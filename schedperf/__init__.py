"""Says whether a Linux scheduler change made a benchmark slower, and shows why."""

from schedperf_collectors import __version__

__all__ = ["__version__"]
