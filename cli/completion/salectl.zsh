#compdef salectl
_salectl() {
	local -a answer line
	line=("${(@)words[1,CURRENT-1]}")
	if (( ${line[(Ie)--]} )); then
		_normal
		return
	fi
	[[ $words[CURRENT] == -* ]] && line+=("$words[CURRENT]")
	answer=("${(@f)$(env 0=zsh "${line[@]}" --generate-bash-completion 2>/dev/null)}")
	if [[ -n $answer[1] ]]; then
		_describe word answer
	else
		_files
	fi
}
compdef _salectl salectl
