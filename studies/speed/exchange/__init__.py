"""``plumbline bench he``: one encrypted exchange of training, beside `phe` and HEU, and beside what can be counted."""
