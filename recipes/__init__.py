"""Whole recipes, from recordings to a report: examples of how the package is used (`python -m recipes.NAME`)."""
