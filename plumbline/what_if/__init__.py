"""What if a column were left out: sets of columns measured in one place, a search among them, and what confirms one."""
