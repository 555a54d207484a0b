# bash completion for salectl
_salectl() {
	local words=("${COMP_WORDS[@]:0:COMP_CWORD}") cur=${COMP_WORDS[COMP_CWORD]}
	if [[ " ${words[*]} " == *" -- "* ]]; then
		COMPREPLY=($(compgen -c -f -- "$cur"))
		return
	fi
	[[ $cur == -* ]] && words+=("$cur")
	COMPREPLY=($(compgen -W "$("${words[@]}" --generate-bash-completion 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _salectl salectl
