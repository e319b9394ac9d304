"""Names of array types, and what arrays of several folders need."""
