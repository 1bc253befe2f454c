"""Contended cache lines, as blocks."""
