"""What every service shares: settings, certificates, channels and servers, errors, meters."""
