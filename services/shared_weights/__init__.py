"""Training on shared weights between two parties or more: who decrypts keeps what it reads."""
