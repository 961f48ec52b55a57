# fish completion for gresnet, which says itself what can come next
function __gresnet_words
	set -l words (commandline -opc)
	$words --generate-bash-completion 2>/dev/null
end
function __gresnet_after
	contains -- (commandline -opc)[-1] $argv
end
complete -c gresnet -f
complete -c gresnet -n 'not __gresnet_after --config --report --state --gres-dir' -a '(__gresnet_words)'
complete -c gresnet -n '__gresnet_after --config --report' -F
complete -c gresnet -n '__gresnet_after --state --gres-dir' -a '(__fish_complete_directories)'
