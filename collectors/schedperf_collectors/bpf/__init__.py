"""BPF programs, and the ways to load them: libbpf, bcc and bpf(2)."""
