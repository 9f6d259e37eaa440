"""What every service shares: settings, agreement, limits, certificates, errors, run folder, state."""
