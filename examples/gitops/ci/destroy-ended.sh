#!/usr/bin/env bash
# Destroys the sales that export-ended.sh has planned for, and no others. The ledger of each, as
# it was when it was sealed, is in the folder ended afterwards, and is proved once more.
. "$(dirname "$0")/common.sh"
cd ended
worst=0
while read -r sale uid _; do
	code=0
	salectl destroy -f "../$sales" "$sale.plan" || code=$?
	case $code in
	0)
		if [ -e "$sale-$uid.ndjson" ]; then
			salectl audit --export "$sale-$uid.ndjson" || code=$?
		fi
		echo "$sale is destroyed. Remove it from $sales, or declare its next run: until then no plan can be made of it."
		;;
	5) complain "$sale has changed since its export, and was not destroyed. The next run checks it again." ;;
	*) complain "$sale was not destroyed, or not in full: see above. The next run completes it." ;;
	esac
	[ $code = 0 ] || worst=$code
done <names
exit $worst
