package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// denials has a guarded process be refused as fast as it can, and looks whether every refusal was told or counted.
func denials(s *scene) error {
	const flood, opens = 500000, 20000
	policy, err := s.policy(10)
	if err != nil {
		return err
	}
	events := s.dir + "/events"
	w, err := s.worker("denials", "bpf", "--policy", policy, "--events", events)
	if err != nil {
		return err
	}
	open, err := w.do(order{"open", opens, s.file})
	if err != nil {
		return err
	}
	bare, err := s.worker("without a guard", "")
	if err != nil {
		return err
	}
	free, err := bare.do(order{"open", opens, s.file})
	if err := errors.Join(err, bare.end()); err != nil {
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
others; the events have both. What is told is told on the same processor. "Over a free one" is over opening, reading and closing a file without a
guard, which takes %d instructions; how long it takes in time is above, under "To decide".

| tried | told | counted | missing | in 10⁹ instructions | over a free one | over one that is allowed |
|---|---|---|---|---|---|---|
| %d | %d | %d | %d | %.0f | %.2f× | %.2f× |
`, flood, free.Nanoseconds(), flood, told, counted, flood-told-counted, float64(time.Second)/float64(denied), ratio(denied, free), ratio(denied, open))
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
