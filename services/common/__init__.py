"""What every service shares: settings, agreement, limits, transport, certificates, errors, run folder, state."""
