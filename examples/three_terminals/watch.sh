#!/usr/bin/env bash
# Any other terminal: the hospital's operator watches the federation, until Ctrl-C.
set -euo pipefail
exec plumbline status --watch --address "${HOSPITAL:-127.0.0.1:50063}" --certs federation/operator/certs
