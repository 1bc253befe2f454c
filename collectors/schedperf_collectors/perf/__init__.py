"""Run perf around a workload, and read its output."""
