"""What travels between two parties in training: messages, their order, who has a right to an answer, what was told."""
