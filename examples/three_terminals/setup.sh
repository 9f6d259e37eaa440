#!/usr/bin/env bash
# Once, before the three terminals: a folder per party, with its own certificate, and its own table where it has one.
set -euo pipefail
examples=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

mkdir federation
plumbline certs --out federation/authority --passive laboratory
for party in coordinator active laboratory operator; do
    mkdir -p "federation/$party/certs"
    cp "federation/authority/ca.crt" "federation/authority/$party.crt" "federation/authority/$party.key" \
        "federation/$party/certs"
done

python "$examples/tables.py" federation
mv federation/hospital.csv federation/active
mv federation/laboratory.csv federation/laboratory
