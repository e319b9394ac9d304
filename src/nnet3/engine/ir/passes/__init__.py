"""Passes: functions from a computation to a better, equivalent computation; `pipeline` puts them in order."""
