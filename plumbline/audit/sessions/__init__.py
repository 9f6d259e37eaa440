"""What the active party knows after as many sessions as the passive parties' owners allow."""
