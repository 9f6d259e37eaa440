"""Shared weights: who decrypts keeps what it reads, as a share; of linear learners, and of a network's first layer."""
