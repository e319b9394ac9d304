"""Every verb on a full disk, killed, with its output over its input, in a read-only folder: see __main__.py."""
