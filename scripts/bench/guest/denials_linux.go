package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

// denials makes a confined process cause denials as fast as it can, and checks that each one was reported or counted.
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
	bare, err := s.worker("unconfined", "")
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
	reported, counted, err := countDenials(events, s.secret)
	if err != nil {
		return err
	}
	fmt.Printf(`
### Denials

One process tries to open a denied file, %d times, as fast as it can. A session reports at most 2,000 denials a second and counts the
others; the events have both. Reporting runs on the same processor. "Over unconfined" is over an unconfined open, read and
close, which takes %d instructions; times are above, under "To decide".

| tried | reported | counted | missing | in 10⁹ instructions | over unconfined | over an allowed one |
|---|---|---|---|---|---|---|
| %d | %d | %d | %d | %.0f | %.2f× | %.2f× |
`, flood, free.Nanoseconds(), flood, reported, counted, flood-reported-counted, float64(time.Second)/float64(denied), ratio(denied, free), ratio(denied, open))
	return nil
}

// countDenials sums up the reported denials of a file in the events, and the suppressed ones that they count.
func countDenials(events, target string) (reported, counted int, err error) {
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
			reported += max(1, e.Count)
		}
	}
	return reported, counted, nil
}
