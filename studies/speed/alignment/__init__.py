"""``plumbline bench psi``: what aligning two tables costs each side, in time and in memory."""
