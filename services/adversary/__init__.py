"""Where attacks are hosted in a service: training and predictions; an honest run has no trace of it."""
