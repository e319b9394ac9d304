"""A whole recipe, from recordings to word error rates by way of a flat start: `python -m recipes.mini_digits`."""
