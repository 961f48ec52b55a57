# bash completion for gresnet-prolog and gresnet-epilog
_gresnet() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]} word command='' words
	for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
		case $word in
		status | scan | plan | check | setup | close | sweep | boot | release | help | version) command=$word ;;
		esac
	done
	case $previous in
	--config) COMPREPLY=($(compgen -f -- "$current")); return ;;
	--state | --gres-dir) COMPREPLY=($(compgen -d -- "$current")); return ;;
	--mode) COMPREPLY=($(compgen -W "shared exclusive" -- "$current")); return ;;
	--role) COMPREPLY=($(compgen -W "node login" -- "$current")); return ;;
	--job | --gres | --gpus) return ;;
	esac
	case "${COMP_WORDS[0]##*/} $command" in
	"gresnet-prolog ") words="status scan plan check setup close help version --config --state --trace --help --version" ;;
	"gresnet-prolog status") words="--json --help $(ls /run/gresnet/jobs 2>/dev/null)" ;;
	"gresnet-prolog scan") words="--json --toml --gres-conf --gres-files --gres-dir --help" ;;
	"gresnet-prolog plan") words="--job --gres --gpus --json --help" ;;
	"gresnet-prolog check") words="--json --quiet --role --fix --dry-run --fingerprint --help" ;;
	"gresnet-prolog setup") words="--dry-run --mode --restart --undo --help" ;;
	"gresnet-prolog close") words="--help" ;;
	"gresnet-prolog help") words="status scan plan check setup close --help" ;;
	"gresnet-epilog help") words="sweep boot release --help" ;;
	"gresnet-prolog version" | "gresnet-epilog version") words="--help" ;;
	"gresnet-epilog ") words="sweep boot release help version --config --state --trace --help --version" ;;
	"gresnet-epilog sweep") words="--boot --help $(ls /run/gresnet/jobs 2>/dev/null)" ;;
	"gresnet-epilog boot") words="--help" ;;
	"gresnet-epilog release") words="--help $(ls /sys/class/infiniband 2>/dev/null)" ;;
	esac
	case $command in
	'' | help | version) ;;
	*) words+=" --config --state --trace" ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -F _gresnet gresnet-prolog gresnet-epilog
