package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// denials has a guarded process be refused as fast as it can, and looks whether every refusal was told or counted.
func denials(s *scene) error {
	const flood = 50000
	policy, err := s.policy(10)
	if err != nil {
		return err
	}
	events := s.dir + "/events"
	w, err := s.worker("denials", "bpf", "--policy", policy, "--events", events)
	if err != nil {
		return err
	}
	open, err := w.do(order{"open", flood, s.file})
	if err != nil {
		return err
	}
	denied, err := w.do(order{"denied", flood, s.secret})
	if err != nil {
		return err
	}
	if err := w.end(); err != nil {
		return err
	}
	told, counted, err := heard(events, s.secret)
	if err != nil {
		return err
	}
	fmt.Printf(`
### Denials

One process opens a file that it may not, %d times, as fast as it can. A session tells at most 2,000 denials a second and counts the
others; the events have both.

| tried | told | counted | missing | in 10⁹ instructions | over an open that is allowed |
|---|---|---|---|---|---|
| %d | %d | %d | %d | %.0f | %.2f× |
`, flood, flood, told, counted, flood-told-counted, float64(time.Second)/float64(denied), ratio(denied, open))
	return nil
}

// heard sums up what the events say of refusals of a file, and of those that they don't tell.
func heard(events, target string) (told, counted int, err error) {
	file, err := os.Open(events)
	if err != nil {
		return 0, 0, err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e struct {
			Count    int
			Unmapped struct{ Kind, Target string }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return 0, 0, err
		}
		switch {
		case e.Unmapped.Kind == "gap":
			counted += e.Count
		case e.Unmapped.Kind == "denial" && e.Unmapped.Target == target:
			told += max(1, e.Count)
		}
	}
	return told, counted, nil
}
