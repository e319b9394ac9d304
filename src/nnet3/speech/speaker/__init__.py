"""Speakers: vectors of voices and how alike they are, verification, diarization, error rates."""
