"""BPF programs, loaded through libbpf or bcc."""
