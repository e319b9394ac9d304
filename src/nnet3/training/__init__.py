"""Examples, training steps, chain objective, training runs, tuning."""
