"""Recognizers, speakers and the server."""
