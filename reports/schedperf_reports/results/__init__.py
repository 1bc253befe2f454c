"""Benchmark results: their tables, figures and the sections that show them."""
