"""``plumbline audit``: a request, its run in local processes, and what is printed and written of it."""
