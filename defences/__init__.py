"""Defences: one file per family; each says where it sits and what it costs."""
