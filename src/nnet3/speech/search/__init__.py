"""The search for words: graphs, composition on demand, beam search, endpoints."""
