"""Vertical linear regression by the first-order gradient (Hu, section 2): what is sent, where it starts, its step."""
