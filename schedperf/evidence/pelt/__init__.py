"""How often load averages were updated, by whom, and how long that took.

Pure functions on what :mod:`schedperf.evidence.pelt.capture` read.
"""
