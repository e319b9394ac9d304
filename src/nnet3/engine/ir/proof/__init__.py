"""Proofs that passes keep the meaning of programs: programs run on random elements of a finite field."""
