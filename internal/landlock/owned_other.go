//go:build !linux

package landlock

func rootsAlone(string) bool { return false }
