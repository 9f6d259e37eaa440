"""The folder of each run: its files, what it says of itself, and past runs side by side."""
