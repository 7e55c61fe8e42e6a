package childtest

import "time"

// Eventually is Within a minute, which is far above the time that tests need.
func Eventually(holds func() bool) bool { return Within(time.Minute, holds) }

// Within waits for a condition, and reports whether it became true in time.
func Within(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
