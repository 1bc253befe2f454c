"""Where tasks went, compared: counts of moves, waits, answers of the balancer, phases of timers."""
