package shell

// Dialects are the languages in which the named shell, or an unknown one, could read a script. sh is bash on some systems.
func Dialects(name string) []Dialect {
	switch name {
	case "bash":
		return []Dialect{Bash}
	case "zsh":
		return []Dialect{Zsh}
	case "posix", "dash", "ash":
		return []Dialect{POSIX}
	case "sh":
		return []Dialect{POSIX, Bash}
	}
	return []Dialect{Bash, POSIX, Zsh}
}
