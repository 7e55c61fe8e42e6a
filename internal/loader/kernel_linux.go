package loader

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// open makes sure that this version's programs are attached.
func open() error {
	_, err := os.Stat(current)
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := mountBPF(); err != nil {
		return err
	}
	if err := mkdir(pinned); err != nil {
		return err
	}
	fresh := current + "-new"
	if err := os.RemoveAll(fresh); err != nil {
		return err
	}
	if err := mkdir(fresh); err != nil {
		return err
	}
	if err := load(fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, current); err != nil {
		return fmt.Errorf("put the pins in place: %w", err)
	}
	return nil
}
