package attacks

// foreign tells of a program that can't be compiled for this architecture.
func foreign(string) bool { return false }
