"""How calls get in and out: who may call, how much of it, in time, and over which connection."""
