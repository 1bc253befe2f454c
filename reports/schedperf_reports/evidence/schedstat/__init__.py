"""What the scheduler counted, as blocks."""
