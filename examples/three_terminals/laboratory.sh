#!/usr/bin/env bash
# Terminal 2: the laboratory, the passive party. Its table never leaves its folder.
set -euo pipefail
cd federation/laboratory
export PLUMBLINE_NAME=laboratory
export PLUMBLINE_LISTEN=${LABORATORY:-127.0.0.1:50062}
export PLUMBLINE_STATE_DIR=state
export PLUMBLINE_PEERS=coordinator=${COORDINATOR:-127.0.0.1:50061},active=${HOSPITAL:-127.0.0.1:50063}
export PLUMBLINE_DATA=laboratory.csv PLUMBLINE_ID_COLUMN=patient
export PLUMBLINE_RUN_DIR=run
exec plumbline serve passive
