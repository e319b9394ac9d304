"""Every option of the package, declared once: command lines, settings files and checks follow. No PyTorch here."""
