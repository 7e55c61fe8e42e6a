package childtest

import "time"

// Eventually waits until a condition holds. It returns false if the condition doesn't hold within a minute, which is far above the time that tests need.
func Eventually(holds func() bool) bool {
	for end := time.Now().Add(time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}
