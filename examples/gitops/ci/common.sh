# What all scripts share: paths, and requests to the platform. Each script reads it
# first. It needs bash, git, curl and jq; on GitHub unzip, too.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "${BASH_SOURCE[0]}")/.."

sales=sales               # the folder of the sale files, and of all files that these name
title=$SALE_ENVIRONMENT   # staging or production: distinguishes comments and issues
PATH=$PWD/.bin:$PATH
umask 077                 # plans and exports are for this user alone
set -a
. "$sales/$SALE_ENVIRONMENT.env" # exports the values of metadata.env
set +a

if [ "${GITHUB_ACTIONS:-}" = true ]; then
	. ci/github.sh
else
	. ci/gitlab.sh
fi

# version names the environment and the sale files as git has them, whatever else the commit
# changes. A plan is found again by it, also where a merge has made a new commit of the same files.
version() {
	local tree
	tree=$(git rev-parse "HEAD:$sales")
	echo "$SALE_ENVIRONMENT-$tree"
}

# request sends a request, METHOD URL [OPTION OF CURL...], and prints the answer. It returns 4
# where there is no such thing (404), and 1 where anything else is not well. The token is not
# among the arguments, which other processes of the machine can read.
request() {
	local method=$1 url=$2 answer status
	shift 2
	answer=$(mktemp)
	status=$(curl --silent --show-error --output "$answer" --write-out '%{http_code}' --request "$method" \
		--config <(printf 'header = "Authorization: Bearer %s"\n' "$token") --header 'Content-Type: application/json' "$@" "$url") || status=none
	case $status in
	2??) cat "$answer" ;;
	*) echo "$method $url is answered with $status: $(head -c 1000 "$answer")" >&2 ;;
	esac
	rm "$answer"
	case $status in
	2??) return 0 ;;
	404) return 4 ;;
	esac
	return 1
}

# pages prints all pages of a list, one JSON document each.
pages() {
	local url=$1 headers
	headers=$(mktemp)
	while [ -n "$url" ]; do
		request GET "$url" --dump-header "$headers"
		url=$(sed -n 's/^[Ll]ink:.*<\([^>]*\)>; *rel="next".*/\1/p' "$headers")
	done
	rm "$headers"
}

# marker is the first line of a Markdown file, which readers do not see.
marker() { head -n 1 "$1"; }
