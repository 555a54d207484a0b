# The API of GitLab, for common.sh. Variables of the runner: CI_API_V4_URL, CI_PROJECT_ID,
# CI_COMMIT_SHA, CI_MERGE_REQUEST_IID. Of the project's settings: SALECTL_TOKEN, an access token
# of the project with the scope api and the role Developer, since job tokens may not comment.
token=${SALECTL_TOKEN:-}
project=$CI_API_V4_URL/projects/$CI_PROJECT_ID

complain() { echo "ERROR: $1" >&2; }

plan_anew="Plan anew: run a new pipeline on the main branch, read the plan in its job 'plan', then start its job 'apply-$SALE_ENVIRONMENT'."

output() { :; } # later jobs find files where they are

# self is the number of the token's own user.
self() { request GET "$CI_API_V4_URL/user" | jq .id; }

# comment FILE prints Markdown and, in a pipeline of a merge request, puts it into its one note. Only a
# note of the token's own user is updated: anybody may write the marker into theirs.
comment() {
	local notes id self
	cat "$1"
	[ -n "${CI_MERGE_REQUEST_IID:-}" ] || return 0
	notes=$project/merge_requests/$CI_MERGE_REQUEST_IID/notes
	self=$(self)
	id=$(pages "$notes?per_page=100" | jq -rs --arg marker "$(marker "$1")" --argjson self "$self" \
		'[.[][] | select(.author.id == $self and (.body | startswith($marker)))][0].id // empty')
	jq -n --rawfile body "$1" '{$body}' |
		if [ -n "$id" ]; then
			request PUT "$notes/$id" --data-binary @-
		else
			request POST "$notes" --data-binary @-
		fi | jq -r '"note \(.id)"'
}

# fetch_plan VERSION FILE gets the newest plan of these files, of the pipelines of the merge
# requests that the commit came with. Pipelines of forks have another project.
fetch_plan() {
	local iids iid pipelines pipeline jobs job status
	iids=$(pages "$project/repository/commits/$CI_COMMIT_SHA/merge_requests" | jq -s '.[][] | select(.state == "merged").iid')
	for iid in $iids; do
		pipelines=$(pages "$project/merge_requests/$iid/pipelines?per_page=100" |
			jq -s --argjson project "$CI_PROJECT_ID" '[.[][] | select(.project_id == $project).id] | sort | reverse[]')
		for pipeline in $pipelines; do
			jobs=$(pages "$project/pipelines/$pipeline/jobs?per_page=100" |
				jq -s --arg name "plan: [$SALE_ENVIRONMENT]" '[.[][] | select(.name == $name and .status == "success").id] | sort | reverse[]')
			for job in $jobs; do
				status=0
				request GET "$project/jobs/$job/artifacts/out/$1.plan" --location >"$2.part" || status=$?
				case $status in
				0) mv "$2.part" "$2" && return ;;
				4) rm "$2.part" ;; # that job has planned other files
				*) return 1 ;;
				esac
			done
		done
	done
}

# our_issue MARKER prints the number of the open issue that a job has made.
our_issue() {
	local self
	self=$(self)
	pages "$project/issues?state=opened&per_page=100" | jq -rs --arg marker "$1" --argjson self "$self" \
		'[.[][] | select(.author.id == $self and (.description // "" | startswith($marker)))][0].iid // empty'
}

# open_issue TITLE FILE keeps one open issue with that text.
open_issue() {
	local iid
	iid=$(our_issue "$(marker "$2")")
	jq -n --arg title "$1" --rawfile description "$2" '{$title, $description}' |
		if [ -n "$iid" ]; then
			request PUT "$project/issues/$iid" --data-binary @-
		else
			request POST "$project/issues" --data-binary @-
		fi | jq -r .web_url
}

# close_issue FILE closes that issue, if there is one.
close_issue() {
	local iid
	iid=$(our_issue "$(marker "$1")")
	[ -z "$iid" ] || request PUT "$project/issues/$iid" --data-binary '{"state_event": "close"}' | jq -r .web_url
}
