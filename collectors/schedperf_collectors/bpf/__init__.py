"""BPF programs, and the ways to load them: libbpf and bcc."""
