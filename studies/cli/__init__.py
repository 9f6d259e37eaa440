"""The verbs that the studies bring to the command line: ``plumbline figures``, ``sweep`` and ``bench``."""
