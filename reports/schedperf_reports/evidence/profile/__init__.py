"""Profiles and flame graphs, as blocks."""
