package launch

import (
	"fmt"
	"testing"
	"time"
)

// TestFind decides which of a table's processes are a session's. This process is 50, its group 40, the command 60.
func TestFind(t *testing.T) {
	at := func(pid, parent, group int, start int64) ProcessRow {
		return ProcessRow{PID: pid, Parent: parent, Group: group, Start: time.Unix(start, 0)}
	}
	before := []ProcessRow{at(1, 0, 1, 0), at(40, 30, 40, 10), at(50, 40, 40, 20), at(51, 50, 51, 21), at(45, 1, 40, 15)}
	for _, x := range []struct {
		name  string
		first int
		now   []ProcessRow
		want  string
	}{
		{"nothing", 0, before, "[]"},
		{"the command", 60, append(before[:5:5], at(60, 50, 40, 30)), "[60]"},
		{"its descendants, in other groups too", 60, append(before[:5:5], at(62, 61, 62, 32), at(61, 60, 61, 31), at(60, 50, 40, 30)), "[62 61 60]"},
		{"an orphan in the group", 0, append(before[:5:5], at(70, 1, 40, 40), at(71, 70, 71, 41)), "[70 71]"},
		{"an orphan that has left the group", 0, append(before[:5:5], at(70, 1, 70, 40)), "[]"},
		{"another process of the pipeline", 0, append(before[:5:5], at(70, 40, 40, 40)), "[]"},
		{"an earlier orphan", 0, before, "[]"},
		{"an earlier PID, reused", 0, append(before[:4:4], at(45, 1, 40, 50)), "[45]"},
		{"toolguard's own children", 60, append(before[:5:5], at(60, 50, 40, 30), at(52, 50, 40, 30), at(53, 52, 40, 31)), "[60]"},
		{"toolguard itself, adopted", 60, []ProcessRow{at(50, 1, 40, 20), at(60, 50, 40, 30)}, "[60]"},
	} {
		g := &SessionGroup{others: []int{51, 52}, before: before}
		g.SetFirst(x.first)
		if got := fmt.Sprint(g.find(x.now, 50, 40)); got != x.want {
			t.Errorf("%s: %s, want %s", x.name, got, x.want)
		}
	}
}
