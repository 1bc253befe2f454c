"""What the whole system counted around each run: idle states, power, interrupts, control groups."""
