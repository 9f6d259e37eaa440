"""Kernels: the arithmetic modulo n**2 that Paillier's time goes into, in interchangeable implementations."""
