package policy

// Diff is what changed between two policies, in what they mean.
func Diff(a, b *Compiled) []Change { return nil }
