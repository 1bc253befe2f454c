"""Numbers, units and rows in words, and untrusted text made safe to show."""
