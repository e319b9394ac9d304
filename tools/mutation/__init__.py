"""Mutation tests: small bugs put into one room, one at a time, to see whether the tests notice."""
