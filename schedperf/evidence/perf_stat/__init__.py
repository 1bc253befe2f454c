"""Counters of ``perf stat``, new vs base."""
