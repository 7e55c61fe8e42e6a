package socket

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// beginning ends the name of a socket on which nobody listens yet.
const beginning = ".new"

// maxBeginning is how long a process may take from making a socket to listening on it. Older ones are stale.
const maxBeginning = time.Minute

// Listener is a session's socket. Closing it removes the file.
type Listener struct {
	*net.UnixListener
	Path   string
	folder *Folder
	file   string
}

// Listen makes the socket of a session in the first folder that can be made, after it has removed those of ended processes. Only the user can
// connect to it.
func Listen(folders []string, session string) (*Listener, error) {
	if session == "" || strings.Contains(session, "/") || strings.HasPrefix(session, ".") {
		return nil, fmt.Errorf("a session can't be named %q", session)
	}
	var all []error
	for _, path := range folders {
		f, err := Make(path)
		if err == nil {
			var l *Listener
			if l, err = f.listen(session + Suffix); err == nil {
				return l, nil
			}
			_ = f.Close()
		}
		all = append(all, err)
	}
	if len(all) == 0 {
		return nil, errors.New("neither XDG_RUNTIME_DIR nor HOME is an absolute path, so there is no folder for the session's socket")
	}
	return nil, fmt.Errorf("make the session's socket: %w", errors.Join(all...))
}

// listen makes a socket. It gets its name once it can be connected to: others remove one that can't be.
func (f *Folder) listen(file string) (*Listener, error) {
	if err := f.removeStale(); err != nil {
		return nil, err
	}
	if f.listens(file) {
		return nil, fmt.Errorf("%s: another process listens there", filepath.Join(f.Path, file))
	}
	temp := file + beginning
	_ = unix.Unlinkat(int(f.fd.Fd()), temp, 0)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: f.name(temp), Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path of a descriptor may be another folder's by then
	if err = os.Chmod(f.name(temp), 0o600); err == nil {
		err = unix.Renameat(int(f.fd.Fd()), temp, int(f.fd.Fd()), file)
	}
	if err != nil {
		_ = unix.Unlinkat(int(f.fd.Fd()), temp, 0)
		_ = l.Close()
		return nil, err
	}
	return &Listener{l, filepath.Join(f.Path, file), f, file}, nil
}

// Close closes the socket and removes its file.
func (l *Listener) Close() error {
	err := l.UnixListener.Close()
	if errors.Is(err, net.ErrClosed) {
		return err
	}
	if e := unix.Unlinkat(int(l.folder.fd.Fd()), l.file, 0); !errors.Is(e, unix.ENOENT) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, l.folder.Close())
}

// sockets returns the names of the folder's sockets that end so.
func (f *Folder) sockets(ending string) (list []string, err error) {
	entries, err := os.ReadDir(f.name("."))
	for _, e := range entries {
		if e.Type() == fs.ModeSocket && strings.HasSuffix(e.Name(), ending) {
			list = append(list, e.Name())
		}
	}
	slices.Sort(list)
	return list, err
}

// removeStale removes the sockets of ended processes.
func (f *Folder) removeStale() error {
	list, err := f.sockets("")
	for _, file := range list {
		info, err := os.Lstat(f.name(file))
		isNew := strings.HasSuffix(file, beginning)
		if err == nil && (!isNew || time.Since(info.ModTime()) > maxBeginning) && !f.listens(file) {
			_ = unix.Unlinkat(int(f.fd.Fd()), file, 0)
		}
	}
	return err
}

// listens reports whether a process listens on a socket, or whether that is unknown.
func (f *Folder) listens(file string) bool {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: f.name(file), Net: "unix"})
	if err == nil {
		_ = conn.Close()
	}
	return !errors.Is(err, unix.ECONNREFUSED) && !errors.Is(err, fs.ErrNotExist)
}

// List returns the paths of the sockets in the folders on which a process listens. A folder that is missing has none. What a check rejects is an
// error, and doesn't keep the others out of the list.
func List(folders []string) (list []string, err error) {
	for _, path := range folders {
		f, e := Open(path)
		if e != nil {
			if !errors.Is(e, fs.ErrNotExist) {
				err = errors.Join(err, e)
			}
			continue
		}
		files, e := f.sockets(Suffix)
		err = errors.Join(err, e)
		for _, file := range files {
			if f.listens(file) {
				list = append(list, filepath.Join(path, file))
			}
		}
		_ = f.Close()
	}
	return list, err
}

// maxPath is how long the path of a socket can be in its address (unix(7)).
const maxPath = 107

// Connect connects to a socket by its path, however long that is.
func Connect(ctx context.Context, path string) (*net.UnixConn, error) {
	name := path
	if len(path) > maxPath {
		dir, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: path, Err: err}
		}
		defer unix.Close(dir)
		name = fmt.Sprintf("/proc/self/fd/%d/%s", dir, filepath.Base(path))
	}
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", name)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}
