"""What findings are in a notebook: tables, a drawing, a report, and a run of an experiment tracker."""
