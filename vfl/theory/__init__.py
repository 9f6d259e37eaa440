"""The papers' closed forms and bounds, and the ledger of equations against unknowns."""
