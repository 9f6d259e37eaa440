"""Training protocols: what each sends, keeps and shows, as plugins of one contract."""
