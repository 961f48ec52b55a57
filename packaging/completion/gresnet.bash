# bash completion for gresnet, which says itself what can come next
_gresnet() {
	local current=${COMP_WORDS[COMP_CWORD]} word
	COMPREPLY=()
	case ${COMP_WORDS[COMP_CWORD - 1]} in
	--config | --report) COMPREPLY=($(compgen -f -- "$current")); return ;;
	--state | --gres-dir) COMPREPLY=($(compgen -d -- "$current")); return ;;
	esac
	while IFS=$'\t' read -r word _; do
		[[ $word != "$current"* ]] || COMPREPLY+=("$word")
	done < <("$1" "${COMP_WORDS[@]:1:COMP_CWORD-1}" --generate-bash-completion 2>/dev/null)
}
complete -F _gresnet gresnet
