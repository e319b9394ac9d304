"""Tunes the model of a recognizer on recordings with transcripts (docs/fine_tuning.md)."""
