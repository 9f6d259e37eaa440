#!/usr/bin/env bash
# Any other terminal: the hospital's operator asks what the federation is doing, then for the scores of some patients.
set -euo pipefail
active=(--address "${HOSPITAL:-127.0.0.1:50063}" --certs federation/operator/certs)
plumbline status "${active[@]}"
plumbline predict p0001 p0002 p0003 p0004 "${active[@]}"
