"""What the instruments cost: instrumented runs against clean runs."""
