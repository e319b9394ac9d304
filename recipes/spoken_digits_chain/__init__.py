"""Strings of spoken digits by LF-MMI and a decoding graph: `python -m recipes.spoken_digits_chain`."""
