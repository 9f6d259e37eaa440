"""In what a party puts its numbers of a session, and how much answers about them have room for."""
