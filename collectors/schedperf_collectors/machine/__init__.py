"""What collectors read of the machine under test: files, symbols, types, counters."""
