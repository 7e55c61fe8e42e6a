package launch

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ProcessTable returns the processes of this user, zombies excepted.
func ProcessTable() ([]ProcessRow, error) {
	const zombie = 5 // SZOMB in XNU's bsd/sys/proc.h
	list, err := unix.SysctlKinfoProcSlice("kern.proc.uid", os.Getuid())
	if err != nil {
		return nil, fmt.Errorf("list the processes: %w", os.NewSyscallError("sysctl(kern.proc.uid)", err))
	}
	rows := make([]ProcessRow, 0, len(list))
	for i := range list {
		p, e := &list[i].Proc, &list[i].Eproc
		if p.P_stat == zombie {
			continue
		}
		rows = append(rows, ProcessRow{
			PID: int(p.P_pid), Parent: int(e.Ppid), Group: int(e.Pgid),
			Start: time.Unix(p.P_starttime.Sec, int64(p.P_starttime.Usec)*1000),
		})
	}
	return rows, nil
}
