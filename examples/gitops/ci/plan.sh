#!/usr/bin/env bash
# Plans all sales, keeps the plans in out/VERSION.plan, and shows them in the comment of the
# request. Fails with the exit code of salectl where a sale cannot be planned.
. "$(dirname "$0")/common.sh"
mkdir -p out
code=0
salectl plan -f "$sales" --exit-code --markdown --title "$title" --out "out/$(version).plan" >out/plan.md || code=$?
output version "$(version)"
comment out/plan.md
[ $code = 2 ] || exit $code # 2: there are changes
