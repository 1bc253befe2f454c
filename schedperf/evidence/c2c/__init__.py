"""False sharing: which cache lines bounce between CPUs, who reads and who writes which bytes."""
