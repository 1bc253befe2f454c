"""Why the result changed: rules that read the evidence, and the order of their findings."""
