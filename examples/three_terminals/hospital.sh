#!/usr/bin/env bash
# Terminal 3: the hospital, the active party. It has the diagnoses, and starts training as soon as the others answer.
set -euo pipefail
cd federation/active
export PLUMBLINE_LISTEN=${HOSPITAL:-127.0.0.1:50063}
export PLUMBLINE_STATE_DIR=state
export PLUMBLINE_PEERS=coordinator=${COORDINATOR:-127.0.0.1:50061},laboratory=${LABORATORY:-127.0.0.1:50062}
export PLUMBLINE_DATA=hospital.csv PLUMBLINE_ID_COLUMN=patient PLUMBLINE_LABEL_COLUMN=diagnosis
export PLUMBLINE_EPOCHS=10 PLUMBLINE_AUTOSTART=true
export PLUMBLINE_RUN_DIR=run
exec plumbline serve active
