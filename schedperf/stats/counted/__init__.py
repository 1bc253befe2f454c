"""Statistics of counted evidence: rates, histograms, and values per CPU and node."""
