#!/usr/bin/env bash
# Applies the plan that was made of these very files, that of the request that was merged. Where
# a sale has changed meanwhile, nothing is changed: exit code 5.
. "$(dirname "$0")/common.sh"
mkdir -p out
plan=out/$(version).plan
[ -e "$plan" ] || fetch_plan "$(version)" "$plan"
if ! [ -e "$plan" ]; then
	complain "No plan was made of the files in $sales as they are in this commit: the request was not up to date with the main branch, or its plan has expired. Nothing was changed. $plan_anew"
	exit 5
fi
code=0
salectl show -f "$sales" "$plan" && salectl apply -f "$sales" "$plan" || code=$?
case $code in
0) ;;
5) complain "The plan is stale: a sale has changed since the plan was made. $plan_anew" ;;
6) complain "A shard or a lock node was out of reach: run this job again, it completes." ;;
*) complain "The plan was not carried out, or not in full: see above. Once that is mended, run this job again." ;;
esac
exit $code
