"""The compiler of programs of matrix commands and the machine that runs them; the engine names no front-end."""
