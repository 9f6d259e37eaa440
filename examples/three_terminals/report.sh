#!/usr/bin/env bash
# Each party for itself, from its own folder: what it may know of the session. Here one terminal does it for both.
set -euo pipefail
plumbline report --from federation/active/run
plumbline report --from federation/laboratory/run
