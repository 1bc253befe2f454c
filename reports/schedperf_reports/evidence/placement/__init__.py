"""Where tasks went and how long they waited, as blocks."""
