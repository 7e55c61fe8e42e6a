# Sourced by the scripts of this folder: the cache, and building its entries once.
set -euo pipefail
vm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
cache=${XDG_CACHE_HOME:-/var/cache}/toolguard-vm

die() { echo "vm: $*" >&2; exit 125; }

# made NAME COMMAND INPUT... prints the folder of a thing that COMMAND makes, in the folder that is its argument. It's made
# once for the same content of the INPUTs, which are this folder's files. One thing is made at a time.
made() {
	local name=$1 command=$2 key dir tmp
	shift 2
	key=$(cd "$vm" && cat lib.sh "$@" | sha256sum | cut -c1-12)
	dir=$cache/$name-$key
	if [ ! -d "$dir" ]; then
		mkdir -p "$cache" && [ -w "$cache" ] || die "can't write $cache: run this once as root, or set XDG_CACHE_HOME"
		( # nothing may follow its end with || or &&: that would turn errexit off within
			flock 9
			[ ! -d "$dir" ] || exit 0
			rm -rf "$cache"/making-* # of killed runs
			tmp=$(mktemp -d "$cache/making-$name.XXXXXX")
			trap 'rm -rf "$tmp"' EXIT
			chmod 755 "$tmp"
			echo "vm: making $dir" >&2
			"$command" "$tmp" >&2
			mv -T "$tmp" "$dir"
		) 9>"$cache/lock"
	fi
	echo "$dir"
}
