"""Task placement and how long tasks waited, as blocks."""
