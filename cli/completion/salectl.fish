# fish completion for salectl
function __salectl_words
	set -l line (commandline -opc)
	string match -q -- '-*' (commandline -ct); and set -a line (commandline -ct)
	contains -- -- $line; or $line --generate-bash-completion 2>/dev/null
end
complete -c salectl -a '(__salectl_words)'
