"""Whole training runs: a settings file, schedules, checkpoints, logs, several processes (docs/training.md)."""
