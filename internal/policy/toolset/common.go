package toolset

// Common returns a name that both patterns, in the normal form, match, with filler where both have a *.
func Common(a, b, filler string) (name string, ok bool) {
	m := meeting{a, b, filler, map[[2]int]bool{}}
	return m.from(0, 0)
}

// meeting looks for a name that two patterns match.
type meeting struct {
	a, b, filler string
	dead         map[[2]int]bool // where the rests have no common name
}

// from is a name that matches both rests.
func (m *meeting) from(i, j int) (name string, ok bool) {
	starA, starB := i < len(m.a) && m.a[i] == '*', j < len(m.b) && m.b[j] == '*'
	switch at := [2]int{i, j}; {
	case i == len(m.a) && j == len(m.b):
		return "", true
	case m.dead[at]:
		return "", false
	default:
		m.dead[at] = true // unless it's found below, which ends the search
	}
	step := func(may bool, text string, i, j int) bool {
		if may && !ok {
			name, ok = m.from(i, j)
			name = text + name
		}
		return ok
	}
	letterA, letterB := i < len(m.a) && !starA, j < len(m.b) && !starB
	_ = step(starA && starB, m.filler, i+1, j+1) ||
		step(starA, "", i+1, j) || step(starB, "", i, j+1) ||
		letterB && step(starA, m.b[j:j+1], i, j+1) ||
		letterA && step(starB, m.a[i:i+1], i+1, j) ||
		letterA && letterB && step(m.a[i] == m.b[j], m.a[i:i+1], i+1, j+1)
	return name, ok
}
