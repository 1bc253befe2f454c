"""Read tables of published numbers, and check their consistency."""
