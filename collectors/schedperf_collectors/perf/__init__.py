"""Running perf around a workload, and reading what it recorded."""
