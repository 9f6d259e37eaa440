"""Speed, measured in one run beside other implementations and beside what can be counted: ``plumbline bench``.

Each subject gives a ``Result``: tables of medians with their spread, the machine, and the versions of what ran.
"""
