"""Numbers that are shared: who decrypts a masked product keeps what it reads, as its share. Knows no session."""
