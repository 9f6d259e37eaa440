#!/usr/bin/env bash
# Terminal 1: the coordinator. It has no table; parties find it at its address.
set -euo pipefail
cd federation/coordinator
export PLUMBLINE_LISTEN=${COORDINATOR:-127.0.0.1:50061}
export PLUMBLINE_STATE_DIR=state
exec plumbline serve coordinator
