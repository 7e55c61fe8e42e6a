# Sourced: Debian packages of several suites, independent of the machine's installed ones. The archive, its keys and the proxies are the
# machine's; lists and downloads are separate.

suites='bookworm bookworm-updates trixie trixie-updates sid'
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# archive SUITES prints the lines of a sources.list, with the archive's address as this machine has it.
archive() {
	local targets main security suite
	targets=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | sort -u)
	main=$(awk '$2 ~ /^(bookworm|trixie|forky|sid|stable|oldstable|testing|unstable)$/ { print $1; exit }' <<<"$targets")
	security=$(awk '$2 ~ /-security$/ { print $1; exit }' <<<"$targets")
	[ -n "$main" ] || die "no Debian archive among this machine's apt sources: kernels can't be fetched"
	for suite; do
		echo "deb [arch=amd64 signed-by=$keyring] $main $suite main"
		[[ -z $security || $suite == *-* || $suite == sid ]] ||
			echo "deb [arch=amd64 signed-by=$keyring] $security $suite-security main"
	done
}

# private COMMAND... runs one of apt's programs on the suites above.
private() {
	local program=$1 dir=$cache/apt
	shift
	set -- -qq -o Dir::Etc::SourceList="$dir/sources.list" -o Dir::Etc::SourceParts=/dev/null \
		-o Dir::Etc::Preferences=/dev/null -o Dir::Etc::PreferencesParts=/dev/null \
		-o Dir::State::Lists="$dir/lists" -o Dir::State::Status="$dir/status" \
		-o Dir::Cache="$dir" -o Dir::Cache::pkgcache=pkgcache.bin -o Dir::Cache::srcpkgcache=srcpkgcache.bin \
		-o APT::Architecture=amd64 -o APT::Sandbox::User=root -o Acquire::Languages=none "$@"
	"$program" "$@"
}

# lists fetches the lists of packages, unless they are of today: an archive soon removes the packages of older lists.
lists() {
	local dir=$cache/apt
	mkdir -p "$dir/lists/partial" "$dir/archives/partial"
	[ -z "$(find "$dir/fetched" -mtime -1 2>/dev/null)" ] || return 0
	: >"$dir/status"
	archive $suites >"$dir/sources.list"
	private apt-get update
	touch "$dir/fetched"
}

# unpack FOLDER PACKAGE... fetches packages and unpacks them. What was fetched before is taken from the cache.
unpack() {
	local into=$1 package file
	shift
	mkdir -p "$cache/debs" "$into"
	for package; do
		file=$(cd "$into" && private apt-get download --print-uris "$package" | awk '{ print $2 }')
		(cd "$cache/debs" && private apt-get download "$package")
		dpkg-deb -x "$cache/debs/$file" "$into"
	done
}
