"""Names of array types, and what arrays of several rooms need."""
