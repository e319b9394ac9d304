"""Audio and what is computed of it: features, pitch, normalisation, i-vectors."""
