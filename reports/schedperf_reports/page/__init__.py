"""Blocks as one self-contained HTML page."""
