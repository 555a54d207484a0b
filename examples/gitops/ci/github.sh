# The API of GitHub, for common.sh. Variables of the runner: GITHUB_API_URL, GITHUB_REPOSITORY,
# GITHUB_EVENT_PATH, GITHUB_OUTPUT, GITHUB_STEP_SUMMARY. From the workflow: GITHUB_TOKEN.
token=${GITHUB_TOKEN:-}
repository=$GITHUB_API_URL/repos/$GITHUB_REPOSITORY

# complain reports an error, at the top of the run too.
complain() { echo "::error::$1"; }

plan_anew="Plan anew: run the workflow 'plan' on the main branch, read the plan in its summary, then re-run this job."

# output names a value for later steps.
output() { echo "$1=$2" >>"$GITHUB_OUTPUT"; }

# comment FILE puts Markdown into the summary of the run and, in a run for a pull request, into its one
# comment. Only a bot's comment is updated: anybody may write the marker into theirs.
comment() {
	local number id
	cat "$1" >>"$GITHUB_STEP_SUMMARY"
	number=$(jq -r '.pull_request.number // empty' "$GITHUB_EVENT_PATH")
	[ -n "$number" ] || return 0
	id=$(pages "$repository/issues/$number/comments?per_page=100" | jq -rs --arg marker "$(marker "$1")" \
		'[.[][] | select(.user.type == "Bot" and (.body | startswith($marker)))][0].id // empty')
	jq -n --rawfile body "$1" '{$body}' |
		if [ -n "$id" ]; then
			request PATCH "$repository/issues/comments/$id" --data-binary @-
		else
			request POST "$repository/issues/$number/comments" --data-binary @-
		fi | jq -r .html_url
}

# fetch_plan VERSION FILE gets the newest plan of these files. Artifacts of forks are
# ignored: their workflows may use any name.
fetch_plan() {
	local id
	id=$(pages "$repository/actions/artifacts?name=salectl-plan-$1&per_page=100" | jq -rs \
		'[.[].artifacts[] | select((.expired | not) and .workflow_run.head_repository_id == .workflow_run.repository_id)]
		| max_by(.created_at).id // empty')
	[ -n "$id" ] || return 0
	request GET "$repository/actions/artifacts/$id/zip" --location >"$2.zip"
	unzip -p "$2.zip" "$1.plan" >"$2"
}

# our_issue MARKER prints the number of the open issue that a job has made.
our_issue() {
	pages "$repository/issues?state=open&per_page=100" | jq -rs --arg marker "$1" \
		'[.[][] | select((.pull_request | not) and .user.type == "Bot" and (.body // "" | startswith($marker)))][0].number // empty'
}

# open_issue TITLE FILE keeps one open issue with that text.
open_issue() {
	local number
	number=$(our_issue "$(marker "$2")")
	jq -n --arg title "$1" --rawfile body "$2" '{$title, $body}' |
		if [ -n "$number" ]; then
			request PATCH "$repository/issues/$number" --data-binary @-
		else
			request POST "$repository/issues" --data-binary @-
		fi | jq -r .html_url
}

# close_issue FILE closes that issue, if there is one.
close_issue() {
	local number
	number=$(our_issue "$(marker "$1")")
	[ -z "$number" ] || request PATCH "$repository/issues/$number" --data-binary '{"state": "closed"}' | jq -r .html_url
}
