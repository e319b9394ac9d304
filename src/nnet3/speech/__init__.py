"""Recognizers and the server."""
