"""Cache-line layouts, as blocks."""
