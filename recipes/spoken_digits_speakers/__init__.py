"""Who said it? X-vectors of spoken digits (`python -m recipes.spoken_digits_speakers --help`)."""
