#!/usr/bin/env bash
# venv.sh PYTHON VENV LOCK SOURCE: a virtual environment from a hashed lock, with SOURCE importable in place.
set -euo pipefail
python=$1 venv=$2 lock=$3 source=$4

if [[ -z $python ]] || ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo "Python: found ${python:-none}, expected 3.11 or newer; install it (apt-get install python3) or set PYTHON=" >&2
  exit 2
fi
if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
  echo "Python: found $python without venv, expected it; apt-get install python3-venv" >&2
  exit 2
fi
echo "setting up $venv (from $lock) ..."
"$python" -m venv --clear "$venv"
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r "$lock"
# The sources stay where they are: an edit is in force at the next start.
site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
realpath "$source" > "$site/dsv4_pd.pth"
cat > "$venv/bin/dsv4-pd" <<SCRIPT
#!$(realpath "$venv")/bin/python
import sys
from dsv4_pd.__main__ import main
sys.exit(main())
SCRIPT
chmod +x "$venv/bin/dsv4-pd"
"$venv/bin/dsv4-pd" --version
