package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// daemon is toolguardd, used as in docs/daemon.md.
type daemon struct {
	s   *scene
	cmd *exec.Cmd
}

const socket = "/run/toolguard/toolguard.sock"

var client = http.Client{Transport: &http.Transport{
	DisableKeepAlives: true,
	DialContext:       func(context.Context, string, string) (net.Conn, error) { return net.Dial("unix", socket) },
}}

// start starts it and returns how long it took until it answered.
func (d *daemon) start() (time.Duration, error) {
	d.cmd = exec.Command(d.s.toolguardd, "--state", d.s.dir+"/state")
	var log bytes.Buffer
	d.cmd.Stderr = &log
	began := time.Now()
	if err := d.cmd.Start(); err != nil {
		return 0, err
	}
	for time.Since(began) < 5*time.Minute { // an emulated machine loads the programs slowly
		if _, err := d.sessions(); err == nil {
			return time.Since(began), nil
		}
		time.Sleep(2 * time.Millisecond)
	}
	d.end(syscall.SIGKILL)
	return 0, fmt.Errorf("toolguardd doesn't answer:\n%s", &log)
}

func (d *daemon) end(s os.Signal) {
	_ = d.cmd.Process.Signal(s)
	_ = d.cmd.Wait()
}

// sessions is how many sessions it knows.
func (d *daemon) sessions() (int, error) {
	answer, err := client.Get("http://toolguard/v1/sessions")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	var list []struct{ State string }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return 0, err
	}
	running := 0
	for _, s := range list {
		if s.State == "running" {
			running++
		}
	}
	return running, nil
}

// begin begins n idle sessions, one after the other.
func (d *daemon) begin(policy string, n int) (started []*exec.Cmd, err error) {
	for range n {
		cmd := exec.Command(d.s.toolguard, "exec", "--daemon", "require", "--policy", policy, "--report", "never", "--", "sh", "-c", "echo; exec sleep infinity")
		cmd.Dir = d.s.workspace
		line, err := cmd.StdoutPipe()
		if err != nil {
			return started, err
		}
		if err := cmd.Start(); err != nil {
			return started, err
		}
		started = append(started, cmd)
		if _, err := line.Read(make([]byte, 1)); err != nil {
			return started, fmt.Errorf("a session doesn't begin: %w", err)
		}
	}
	return started, nil
}

// stop ends the sessions of begin.
func stop(started []*exec.Cmd) {
	for _, cmd := range started {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range started {
		_ = cmd.Wait()
	}
}

// use is toolguardd's use of memory, in bytes, and of a processor, in percent.
type use struct {
	resident, maps, label int
	cpu                   float64
}

// uses measures toolguardd after a time of idleness.
func (d *daemon) uses(rest time.Duration) (u use, err error) {
	time.Sleep(rest)
	const seconds = 10
	before, err := d.ticks()
	if err != nil {
		return u, err
	}
	time.Sleep(seconds * time.Second)
	after, err := d.ticks()
	if err != nil {
		return u, err
	}
	u.cpu = float64(after-before) / seconds // a tick is 10 ms
	rollup, err := os.ReadFile(d.proc("smaps_rollup"))
	if err != nil {
		return u, err
	}
	u.resident = field(rollup, "Rss:") << 10
	infos, err := filepath.Glob(d.proc("fdinfo/*"))
	if err != nil {
		return u, err
	}
	seen := map[int]bool{}
	for _, name := range infos {
		info, err := os.ReadFile(name)
		id := field(info, "map_id:")
		if err != nil || id == 0 || seen[id] {
			continue
		}
		seen[id] = true
		u.maps += field(info, "memlock:")
		if field(info, "map_type:") == taskStorage {
			u.label = field(info, "value_size:")
		}
	}
	return u, nil
}

const taskStorage = 29 // BPF_MAP_TYPE_TASK_STORAGE

func (d *daemon) proc(name string) string { return fmt.Sprintf("/proc/%d/%s", d.cmd.Process.Pid, name) }

// ticks is its processor time.
func (d *daemon) ticks() (int, error) {
	stat, err := os.ReadFile(d.proc("stat"))
	if err != nil {
		return 0, err
	}
	var user, system int
	_, after, _ := strings.Cut(string(stat), ") ")
	words := strings.Fields(after) // the third field of proc(5) is the first here
	if len(words) < 13 {
		return 0, fmt.Errorf("%s is too short", d.proc("stat"))
	}
	_, err = fmt.Sscan(words[11]+" "+words[12], &user, &system)
	return user + system, err
}

// field is the number after a word in the text of a file in /proc; 0: it has no such word.
func field(text []byte, word string) (n int) {
	if _, after, ok := bytes.Cut(text, []byte(word)); ok {
		_, _ = fmt.Sscan(string(after[:min(len(after), 40)]), &n)
	}
	return n
}
