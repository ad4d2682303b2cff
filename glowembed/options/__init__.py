"""The table of options: what each is called, what it may be, and where it shows."""
