"""What to do next: commands that record a side again, or that make two sides comparable."""
