"""Writers of recordings whose truth is known, for tests and benchmarks; not part of the release."""
