"""Read a kernel's own files: symbols, types, configuration, and renamed functions."""
