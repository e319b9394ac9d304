"""Passes: functions from a computation to a better one that does the same; `pipeline` puts them in order."""
