"""The sides of a comparison, their runs, and what each run printed, captured and did."""
