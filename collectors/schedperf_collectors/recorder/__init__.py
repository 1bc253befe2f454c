"""The recorder: its commands, the plan of its runs, and the bundle it writes."""
