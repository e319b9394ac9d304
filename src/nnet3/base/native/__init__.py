"""Native code for steps of recurrences and for products: C, built by the system's compiler when it is first wanted."""
