"""``plumbline bench federation`` and ``predict``: real federations of processes over mTLS on this machine."""
