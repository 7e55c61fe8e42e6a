package desktop

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/toolguard/toolguard/internal/ownprogram"
)

// start starts the program that shows notices. It returns nil, which shows nothing, without a session bus or without the program.
func start() chan Notice {
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") == "" {
		return nil
	}
	fd, err := ownprogram.Open("toolguard-ship", "shows notices")
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	cmd := exec.Command(fmt.Sprintf("/proc/self/fd/%d", fd), "notify")
	cmd.Args[0] = "toolguard-ship"
	cmd.Dir = "/"
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true} // the terminal's signals aren't for it
	in, err := cmd.StdinPipe()
	if err != nil || cmd.Start() != nil {
		return nil
	}
	queue := make(chan Notice, 16)
	go func() {
		send(queue, in)
		_ = cmd.Wait()
	}()
	return queue
}

// send writes notices until the queue is closed or the program has ended.
func send(queue <-chan Notice, to io.WriteCloser) {
	defer to.Close()
	enc := json.NewEncoder(to)
	for n := range queue {
		if enc.Encode(n) != nil {
			break
		}
	}
	for range queue { // Notify doesn't wait, and Close closes
	}
}
