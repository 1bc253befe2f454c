"""Read the machine under test: files, symbols, types, counters."""
