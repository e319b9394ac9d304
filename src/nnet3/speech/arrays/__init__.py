"""Names of array types, and operations on arrays used in several folders."""
