"""The recorder: its commands, the plan of its runs, and the bundle that it writes."""
