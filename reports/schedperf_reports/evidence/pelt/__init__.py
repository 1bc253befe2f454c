"""PELT updates, as blocks."""
