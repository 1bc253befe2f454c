"""Counters of ``perf stat``, base against new."""
