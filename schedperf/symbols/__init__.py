"""Name addresses: from samples and call chains to functions."""
