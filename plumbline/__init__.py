"""Plumbline: run a real vertical federation, attack it, defend it, report what leaked."""

from plumbline.federation import Federation

__all__ = ["Federation"]
