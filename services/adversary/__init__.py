"""Where attacks are hosted in a service: training and predictions. An honest run has no trace of it."""
