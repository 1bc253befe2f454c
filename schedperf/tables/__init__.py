"""Tables of published numbers: reading them, and checking that they are consistent."""
