"""Task placement and how long they waited, as blocks."""
