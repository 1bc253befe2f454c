"""Analysis sections that are not yet in the package of their evidence."""
