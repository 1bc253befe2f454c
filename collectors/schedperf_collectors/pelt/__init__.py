"""The parts of the collector ``bpf_pelt``."""
