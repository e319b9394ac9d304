"""Native code for the steps of recurrences: C, built by the system's compiler when it is first wanted."""
