#!/usr/bin/env bash
# Fetches the salectl of ci/salectl.env into .bin, and refuses another one.
. "$(dirname "$0")/common.sh"
. ci/salectl.env

is_right() { echo "$SALECTL_SHA256  $1" | sha256sum --check --status; }

mkdir -p .bin
if ! [ -e .bin/salectl ] || ! is_right .bin/salectl; then
	curl --fail --silent --show-error --location --retry 3 --output .bin/salectl.new "$SALECTL_URL"
	is_right .bin/salectl.new || {
		complain "What $SALECTL_URL has is not the salectl whose SHA-256 ci/salectl.env names."
		exit 1
	}
	chmod +x .bin/salectl.new
	mv .bin/salectl.new .bin/salectl
fi
salectl version
