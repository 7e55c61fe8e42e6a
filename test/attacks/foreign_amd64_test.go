package attacks

// foreign reports whether a program can't be compiled for this architecture.
func foreign(string) bool { return false }
