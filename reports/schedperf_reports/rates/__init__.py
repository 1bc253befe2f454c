"""Compared rates as cells, tables, maps and histograms."""
