#!/usr/bin/env bash
# Compares all sales with their files on the main branch. If something differs or cannot be
# read, an issue reports it with its possible causes, and the job fails; otherwise the issue is
# closed.
. "$(dirname "$0")/common.sh"
mkdir -p out
code=0
salectl plan -f "$sales" --exit-code --markdown --title "drift of $title" >out/drift.md || code=$?
cat out/drift.md
if [ $code = 0 ]; then
	close_issue out/drift.md
	exit 0
fi
open_issue "Sales of $title differ from their files" out/drift.md
complain "The sales are not as their files declare them: exit code $code, see the issue."
exit $code
