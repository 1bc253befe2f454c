"""What a kernel says of itself: symbols, types, configuration, and renamed functions."""
