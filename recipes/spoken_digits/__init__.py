"""Spoken digits, from recordings to a report (`python -m recipes.spoken_digits --help`)."""
