#!/usr/bin/env bash
# Finds the sales that have ended, exports each, proves the export, and plans to destroy it: all
# in the folder ended. Changes nothing. A sale is left alone while it is protected, while units
# are held for payments, while its draw is not done, and for a day after its end.
. "$(dirname "$0")/common.sh"
rest=86400 # seconds since the end of a sale
mkdir -p ended
salectl list -f "$sales" --json >ended/list.json ||
	complain "Not all sales could be read: see above. Those that could are processed."
jq -r --argjson rest "$rest" '.sales[]
	| select(.file and .closesAt)
	| select(.phase == "sealed" or (.phase == "ended" or .phase == "closed") and ((.protect or .draw.complete == false or .unread or .held > 0) | not))
	| select((.closesAt | sub("[.][0-9]+Z$"; "Z") | fromdate) <= now - $rest)
	| "\(.sale) \(.uid) \(.phase)"' ended/list.json >ended/names
while read -r sale uid phase; do
	echo "$sale has ended:"
	if [ "$phase" != sealed ]; then # a destroy that was cut short has exported it
		(cd ended && salectl export -f "../$sales" --sale "$sale")
		salectl audit --export "ended/$sale-$uid.live.ndjson"
	fi
	salectl plan -f "$sales" --sale "$sale" --destroy --out "ended/$sale.plan"
done <ended/names
[ -s ended/names ] || echo "No sale is to be destroyed."
