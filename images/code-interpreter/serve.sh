#!/bin/sh
# The program of the image: runs the server, and starts it again if it was killed.
. /etc/profile.d/code-interpreter.sh
run() {
  # The kernels seed their random numbers again in a clone.
  RAMET_RESEEDS=node,python,R /opt/code-interpreter/bin/python -m code_interpreter &
  server=$!
}
trap 'stopping=yes; kill -TERM "$server"' TERM INT
run
while :; do
  wait "$server"
  status=$?
  # A signal of this script ends `wait` before the server ends.
  kill -0 "$server" 2>/dev/null && continue
  if [ -n "${stopping-}" ] || [ "$status" -lt 128 ]; then exit "$status"; fi
  echo "the code interpreter was ended by a signal ($status); starting it again" >&2
  sleep 0.2
  run
done
